#include "collection/build/quantize.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/build/sources.h"
#include "collection/catalog.h"
#include "collection/shard.h"

namespace maxsim::collection {
namespace {

// Walks over the shards of a collection one after the other, with one open at a time.
class ShardWalk {
 public:
  ShardWalk(const std::string& folder, const Manifest& manifest, bool check_checksums)
      : folder_(folder), manifest_(manifest), check_checksums_(check_checksums) {}

  // Returns the present shard, or null before the first Next.
  const Shard* shard() const { return shard_.get(); }

  // Opens the next one; there must be one.
  absl::Status Next() {
    shard_.reset();
    absl::StatusOr<std::shared_ptr<const Shard>> opened =
        Shard::Open(folder_, manifest_, manifest_.shards[next_++], Access::kMapped, check_checksums_);
    if (!opened.ok()) return opened.status();
    shard_ = *std::move(opened);
    return absl::OkStatus();
  }

 private:
  const std::string& folder_;
  const Manifest& manifest_;
  const bool check_checksums_;
  size_t next_ = 0;
  std::shared_ptr<const Shard> shard_;
};

ElementType ElementTypeOf(ScalarType storage) {
  switch (storage) {
    case ScalarType::kF32:
      return ElementType::kF32;
    case ScalarType::kBF16:
      return ElementType::kBF16;
    default:
      return ElementType::kF16;
  }
}

class ShardTokens : public TokenSource {
 public:
  ShardTokens(const std::string& folder, const Manifest& manifest)
      : walk_(folder, manifest, /*check_checksums=*/true), manifest_(manifest) {}
  ElementType type() const override { return ElementTypeOf(manifest_.storage); }
  int64_t dim() const override { return manifest_.dim; }
  int64_t num_tokens() const override { return manifest_.num_tokens; }

  absl::StatusOr<const void*> Next(int64_t num_rows) override {
    const auto row_bytes = static_cast<size_t>(dim()) * SizeOf(type());
    block_.resize(static_cast<size_t>(num_rows) * row_bytes);
    for (int64_t done = 0; done < num_rows;) {
      if (walk_.shard() == nullptr || row_ == walk_.shard()->documents().num_tokens()) {
        if (absl::Status status = walk_.Next(); !status.ok()) return status;
        row_ = 0;
      }
      const DocumentsView& documents = walk_.shard()->documents();
      const int64_t count = std::min(num_rows - done, documents.num_tokens() - row_);
      std::memcpy(block_.data() + static_cast<size_t>(done) * row_bytes,
                  static_cast<const char*>(documents.tokens) + static_cast<size_t>(row_) * row_bytes,
                  static_cast<size_t>(count) * row_bytes);
      // What was copied was what had been hashed.
      if (absl::Status status = walk_.shard()->Check(); !status.ok()) return status;
      row_ += count;
      done += count;
    }
    return block_.data();
  }

 private:
  ShardWalk walk_;
  const Manifest& manifest_;
  int64_t row_ = 0;  // next one of the present shard
  std::vector<char> block_;
};

class ShardPayloads : public PayloadSource {
 public:
  // Tokens are read, and hashed, before the payloads of their documents.
  ShardPayloads(const std::string& folder, const Manifest& manifest)
      : walk_(folder, manifest, /*check_checksums=*/false) {}

  absl::StatusOr<std::string_view> Next() override {
    if (walk_.shard() == nullptr || document_ == walk_.shard()->documents().num_documents) {
      if (absl::Status status = walk_.Next(); !status.ok()) return status;
      document_ = 0;
    }
    return walk_.shard()->payload(document_++);
  }

 private:
  ShardWalk walk_;
  int64_t document_ = 0;
};

absl::Status AddDocument(const Shard& shard, int64_t document, bool has_payloads, Catalog& catalog) {
  const int64_t* offsets = shard.documents().offsets + document;
  catalog.lengths.push_back(static_cast<int32_t>(offsets[1] - offsets[0]));
  if (has_payloads) catalog.payload_sizes.push_back(static_cast<int32_t>(shard.payload(document).size()));
  const absl::Status added = shard.id_type() == IdType::kInt64 ? catalog.ids.Add(shard.int_id(document))
                                                               : catalog.ids.Add(shard.string_id(document));
  if (added.ok()) return absl::OkStatus();
  return absl::DataLossError(Cat(shard.path(), ": document ", document, ": ", added.message()));
}

absl::StatusOr<std::unique_ptr<Catalog>> ReadCatalog(const std::string& folder, const Manifest& manifest,
                                                     const BuildObserver& observer) {
  constexpr int64_t kReportInterval = 4096;
  auto catalog = std::make_unique<Catalog>(manifest.id_type);
  ShardWalk walk(folder, manifest, /*check_checksums=*/false);
  for (const ShardEntry& entry : manifest.shards) {
    if (absl::Status status = walk.Next(); !status.ok()) return status;
    for (int64_t document = 0; document < entry.num_documents; ++document) {
      absl::Status status = AddDocument(*walk.shard(), document, manifest.has_payloads, *catalog);
      if (status.ok() && observer != nullptr && document % kReportInterval == 0) {
        status = observer({.stage = BuildProgress::Stage::kReading,
                           .documents_done = catalog->num_documents(),
                           .documents_total = manifest.num_documents});
      }
      if (!status.ok()) return status;
    }
  }
  return catalog;
}

}  // namespace

absl::StatusOr<Manifest> QuantizeCollection(const QuantizeOptions& options, const BuildObserver& observer) {
  std::error_code ignored;
  if (std::filesystem::equivalent(options.source, options.target, ignored)) {
    return absl::FailedPreconditionError(
        Cat(options.source, ": the target is the source; the i8 collection needs a folder of its own"));
  }
  absl::StatusOr<Manifest> source = ReadManifest(options.source);
  if (!source.ok()) return source.status();
  if (source->storage == ScalarType::kI8) {
    return absl::FailedPreconditionError(Cat(options.source, ": is i8 already"));
  }
  absl::StatusOr<std::unique_ptr<Catalog>> catalog = ReadCatalog(options.source, *source, observer);
  if (!catalog.ok()) return catalog.status();
  BuildOptions build;
  build.folder = options.target;
  build.name = options.name.empty() ? source->name : options.name;
  build.storage = ScalarType::kI8;
  build.rotation_seed = options.rotation_seed;
  build.num_threads = options.num_threads;
  build.generation = source->generation;
  build.allow_other_shape = options.allow_other_shape;
  build.max_shard_bytes = options.max_shard_bytes;
  build.created_by = options.created_by;
  build.encoder = source->encoder;
  ShardTokens tokens(options.source, *source);
  ShardPayloads payloads(options.source, *source);
  return BuildCollection(build, **catalog, tokens, source->has_payloads ? &payloads : nullptr, observer);
}

}  // namespace maxsim::collection
