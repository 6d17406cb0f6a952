#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/text.h"
#include "collection/build/document_input.h"
#include "collection/log/log_summary.h"
#include "collection/shard.h"
#include "kernels/quantize.h"
#include "kernels/residual_codes.h"

namespace maxsim::collection {
namespace {

// Opens the shards of a collection one after another, one at a time.
class ShardWalk {
 public:
  ShardWalk(std::string folder, std::shared_ptr<const Manifest> manifest, bool check_checksums)
      : folder_(std::move(folder)), manifest_(std::move(manifest)), check_checksums_(check_checksums) {}

  const Manifest& manifest() const { return *manifest_; }

  // Returns the current shard, or null before the first call of Next.
  const Shard* shard() const { return shard_.get(); }

  // Returns the decoder of the current shard's rows of residual codes.
  const ResidualDecoder& decoder() const { return *decoder_; }

  // Opens the next shard. There must be one.
  absl::Status Next() {
    shard_.reset();
    absl::StatusOr<std::shared_ptr<const Shard>> opened =
        Shard::Open(folder_, *manifest_, manifest_->shards[next_++], Access::kMapped, check_checksums_);
    if (!opened.ok()) return opened.status();
    shard_ = *std::move(opened);
    if (IsResidual(manifest_->storage))
      decoder_.emplace(manifest_->storage, manifest_->dim, shard_->documents().codebook);
    return absl::OkStatus();
  }

 private:
  const std::string folder_;
  const std::shared_ptr<const Manifest> manifest_;
  const bool check_checksums_;
  size_t next_ = 0;
  std::shared_ptr<const Shard> shard_;
  std::optional<ResidualDecoder> decoder_;
};

// Returns the type in which token vectors of a storage type are read.
ElementType ElementTypeOf(ScalarType storage) {
  switch (storage) {
    case ScalarType::kBF16:
      return ElementType::kBF16;
    case ScalarType::kF16:
      return ElementType::kF16;
    default:
      return ElementType::kF32;
  }
}

class ShardTokens : public TokenSource {
 public:
  ShardTokens(std::string folder, std::shared_ptr<const Manifest> manifest)
      : walk_(std::move(folder), std::move(manifest), /*check_checksums=*/true) {}
  ElementType type() const override { return ElementTypeOf(walk_.manifest().storage); }
  int64_t dim() const override { return walk_.manifest().dim; }
  int64_t num_tokens() const override { return walk_.manifest().num_tokens; }

  absl::StatusOr<const void*> Next(int64_t num_rows) override {
    block_.resize(static_cast<size_t>(num_rows * dim()) * SizeOf(type()));
    for (int64_t done = 0; done < num_rows;) {
      if (walk_.shard() == nullptr || row_ == walk_.shard()->documents().num_tokens()) {
        if (absl::Status status = walk_.Next(); !status.ok()) return status;
        row_ = 0;
        document_ = 0;
      }
      const DocumentsView& documents = walk_.shard()->documents();
      const int64_t count = std::min(num_rows - done, documents.num_tokens() - row_);
      Copy(documents, count, block_.data() + static_cast<size_t>(done * dim()) * SizeOf(type()));
      // Check() fails if the mapped shard file changed or could not be read after its checksum was verified.
      if (absl::Status status = walk_.shard()->Check(); !status.ok()) return status;
      row_ += count;
      done += count;
    }
    return block_.data();
  }

 private:
  // Copies the current shard's next rows; decodes i8 and residual codes to FP32.
  void Copy(const DocumentsView& documents, int64_t count, char* target) {
    const ScalarType storage = walk_.manifest().storage;
    const int64_t row_bytes = RowBytes(storage, dim());
    const char* source = static_cast<const char*>(documents.tokens) + row_ * row_bytes;
    auto* values = reinterpret_cast<float*>(target);
    if (IsResidual(storage)) {
      for (int64_t row = 0; row < count; ++row, source += row_bytes, values += dim()) {
        walk_.decoder().DecodeRow(source, values);
      }
      return;
    }
    if (storage != ScalarType::kI8) {
      std::memcpy(target, source, static_cast<size_t>(count * row_bytes));
      return;
    }
    for (int64_t row = row_; row < row_ + count; ++row, source += row_bytes, values += dim()) {
      while (row >= documents.offsets[document_ + 1]) ++document_;
      for (int64_t column = 0; column < dim(); ++column) {
        values[column] = documents.scales[document_] * static_cast<float>(static_cast<int8_t>(source[column]));
      }
      Unrotate(walk_.manifest().rotation_seed, absl::MakeSpan(values, static_cast<size_t>(dim())));
    }
  }

  ShardWalk walk_;
  int64_t row_ = 0;       // next one of the present shard
  int64_t document_ = 0;  // i8: a document at or before that row's
  std::vector<char> block_;
};

class ShardPayloads : public PayloadSource {
 public:
  // Does not verify checksums: the tokens of the same files are read first, and that verifies them.
  ShardPayloads(std::string folder, std::shared_ptr<const Manifest> manifest)
      : walk_(std::move(folder), std::move(manifest), /*check_checksums=*/false) {}

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

class CollectionDocuments : public DocumentInput {
 public:
  CollectionDocuments(std::string folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::make_shared<const Manifest>(std::move(manifest))) {}

  // Reads everything about each document except its id.
  absl::Status Open() {
    return ForEachDocument([&](const Shard& shard, int64_t document) {
      const int64_t* offsets = shard.documents().offsets + document;
      lengths_.push_back(static_cast<int32_t>(offsets[1] - offsets[0]));
      if (manifest_->has_payloads) payload_sizes_.push_back(static_cast<int32_t>(shard.payload(document).size()));
      if (shard.ordinals() != nullptr) positions_.push_back(shard.ordinals()[document]);
      return absl::OkStatus();
    });
  }

  const std::string& path() const override { return folder_; }
  int64_t dim() const override { return manifest_->dim; }
  const std::vector<int32_t>& lengths() const override { return lengths_; }
  bool HasIds() const override { return true; }
  absl::Status AddIds(IdCollector& ids) override {
    return ForEachDocument([&](const Shard& shard, int64_t document) {
      const absl::Status added =
          shard.id_type() == IdType::kInt64 ? ids.Add(shard.int_id(document)) : ids.Add(shard.string_id(document));
      return added.ok() ? added : AtPlace(Cat(shard.path(), ": document ", document, ": "), added);
    });
  }
  absl::StatusOr<std::vector<int32_t>> ReadPayloadSizes() override { return std::move(payload_sizes_); }
  absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens() override {
    return std::make_unique<ShardTokens>(folder_, manifest_);
  }
  std::unique_ptr<PayloadSource> MakePayloads() override { return std::make_unique<ShardPayloads>(folder_, manifest_); }
  std::optional<ScalarType> storage() const override { return manifest_->storage; }
  std::optional<EncoderIdentity> encoder() const override { return manifest_->encoder; }
  std::vector<int64_t> TakePositions() override { return std::move(positions_); }

 private:
  // Calls take(shard, index of the document in this shard) for each document. Ends with the first error that it
  // returns.
  absl::Status ForEachDocument(absl::FunctionRef<absl::Status(const Shard& shard, int64_t document)> take) const {
    ShardWalk walk(folder_, manifest_, /*check_checksums=*/false);
    for (const ShardEntry& entry : manifest_->shards) {
      if (absl::Status status = walk.Next(); !status.ok()) return status;
      for (int64_t document = 0; document < entry.num_documents; ++document) {
        if (absl::Status status = take(*walk.shard(), document); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  const std::string folder_;
  const std::shared_ptr<const Manifest> manifest_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> payload_sizes_;
  std::vector<int64_t> positions_;  // of a partition
};

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentInput>> OpenCollectionInput(const std::string& folder, Manifest manifest) {
  if (absl::Status status = CheckShardsAreComplete(folder, manifest); !status.ok()) return status;
  auto input = std::make_unique<CollectionDocuments>(folder, std::move(manifest));
  if (absl::Status status = input->Open(); !status.ok()) return status;
  return input;
}

}  // namespace maxsim::collection
