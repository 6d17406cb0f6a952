#include "collection/build/builder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_writer.h"
#include "collection/collection_name.h"
#include "collection/log/log_summary.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

absl::Status CheckInput(const BuildOptions& options, const Catalog& catalog, const TokenSource& tokens,
                        const PayloadSource* payloads) {
  if (options.storage == ScalarType::kI8 && options.rotation_seed > static_cast<uint64_t>(kMaxRotationSeed)) {
    return Invalid("seed: ", options.rotation_seed, ", the limits are 0 .. ", kMaxRotationSeed);
  }
  if (options.max_shard_bytes < kMinMaxShardBytes) {
    return Invalid("max-shard-bytes: ", options.max_shard_bytes, ", the least is ", kMinMaxShardBytes);
  }
  if (tokens.dim() < kMinDim || tokens.dim() > kMaxDim) {
    return Invalid("tokens: ", tokens.dim(), " columns, the limits are ", kMinDim, " .. ", kMaxDim);
  }
  if (catalog.num_documents() == 0) return Invalid("there is no document to build from");
  if (catalog.ids.size() != catalog.num_documents()) {
    return Invalid(catalog.ids.size(), " ids for ", catalog.num_documents(), " documents");
  }
  if (catalog.has_payloads() &&
      (payloads == nullptr || static_cast<int64_t>(catalog.payload_sizes.size()) != catalog.num_documents())) {
    return Invalid(catalog.payload_sizes.size(), " payloads for ", catalog.num_documents(), " documents");
  }
  int64_t sum = 0;
  for (size_t document = 0; document < catalog.lengths.size(); ++document) {
    const int64_t length = catalog.lengths[document];
    if (length < 1 || length > kMaxDocumentTokens) {
      return Invalid("lengths[", document, "]: ", length, " tokens, the limits are 1 .. ", kMaxDocumentTokens);
    }
    sum += length;
  }
  if (sum != tokens.num_tokens()) {
    return Invalid("lengths: they sum to ", sum, " tokens, but there are ", tokens.num_tokens(), " token vectors");
  }
  return absl::OkStatus();
}

// Returns the manifest in the folder, or an empty one of generation 0.
absl::StatusOr<Manifest> FindPublished(const std::string& folder) {
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (absl::IsNotFound(manifest.status())) return Manifest();
  if (!manifest.ok()) {
    return absl::FailedPreconditionError(
        Cat("the folder holds a manifest that cannot be read; remove it to begin anew: ", manifest.status().message()));
  }
  return manifest;
}

absl::StatusOr<std::string> ChooseName(const BuildOptions& options, const Manifest& published) {
  if (published.generation > 0) {
    if (options.name.empty() || options.name == published.name) return published.name;
    return absl::FailedPreconditionError(Cat(options.folder, ": holds the collection ", Quote(published.name), ", not ",
                                             Quote(options.name), "; choose another folder or that name"));
  }
  std::string name = options.name;
  if (name.empty()) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::weakly_canonical(options.folder, error);
    name = (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  absl::Status status = CheckCollectionName(name);
  if (status.ok()) return name;
  if (!options.name.empty()) return status;
  return Invalid(status.message(), "; it is the folder's, as none was given");
}

// Checks that requests made for the published generation suit the new one.
absl::Status CheckShape(const BuildOptions& options, const Catalog& catalog, int64_t dim, const Manifest& published) {
  if (published.generation == 0 || options.allow_other_shape) return absl::OkStatus();
  const auto differs = [&](const std::string& there, const std::string& here) {
    return absl::FailedPreconditionError(
        Cat(options.folder, ": generation ", published.generation, " of ", Quote(published.name), " there has ", there,
            ", and this input has ", here,
            ", which its clients do not expect; choose another folder, or give --allow-other-shape"));
  };
  if (dim != published.dim) return differs(Cat("dimension ", published.dim), Cat(dim));
  if (catalog.ids.type() != published.id_type) {
    return differs(Cat("ids of type ", Name(published.id_type)), std::string(Name(catalog.ids.type())));
  }
  if (published.has_payloads && !catalog.has_payloads()) return differs("payloads", "none");
  return absl::OkStatus();
}

// Creates a folder, and in the end removes what it created, where that is empty.
class OutputFolder {
 public:
  OutputFolder() = default;
  ~OutputFolder() {
    for (const std::filesystem::path& path : created_) ::rmdir(path.c_str());
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  absl::Status Create(const std::string& folder) {
    std::error_code error;
    for (std::filesystem::path path = folder; !path.empty() && !std::filesystem::exists(path, error);
         path = path.parent_path()) {
      created_.push_back(path);
    }
    std::filesystem::create_directories(folder, error);
    return error ? ErrnoStatus(error.value(), "cannot create folder", folder) : absl::OkStatus();
  }

 private:
  std::vector<std::filesystem::path> created_;  // innermost first
};

int NumThreads(const BuildOptions& options) {
  if (options.num_threads > 0) return options.num_threads;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

std::vector<ShardPlan> PlanShards(const Catalog& catalog, ScalarType storage, int64_t dim, int64_t max_shard_bytes) {
  const IdType id_type = catalog.ids.type();
  const auto file_bytes = [&](const ShardPlan& plan) {
    return ShardFileBytes(plan, storage, dim, id_type, catalog.has_payloads());
  };
  const auto with = [&](ShardPlan plan, int64_t document) {
    plan.num_documents += 1;
    plan.num_tokens += catalog.lengths[document];
    if (id_type == IdType::kString) plan.id_bytes += catalog.ids.num_bytes(document);
    if (catalog.has_payloads()) plan.payload_bytes += catalog.payload_sizes[document];
    return plan;
  };
  std::vector<ShardPlan> plans;
  for (int64_t document = 0; document < catalog.num_documents(); ++document) {
    if (!plans.empty() && plans.back().num_documents < kMaxShardDocuments) {
      ShardPlan larger = with(plans.back(), document);
      larger.num_bytes = file_bytes(larger);
      if (larger.num_bytes <= max_shard_bytes) {
        plans.back() = larger;
        continue;
      }
    }
    ShardPlan first = with(ShardPlan{.first_document = document}, document);
    first.num_bytes = file_bytes(first);
    plans.push_back(first);
  }
  return plans;
}

absl::StatusOr<Manifest> BuildCollection(const BuildOptions& options, const Catalog& catalog, TokenSource& tokens,
                                         PayloadSource* payloads, const BuildObserver& observer) {
  if (absl::Status status = CheckInput(options, catalog, tokens, payloads); !status.ok()) return status;
  const std::vector<ShardPlan> plans = PlanShards(catalog, options.storage, tokens.dim(), options.max_shard_bytes);
  if (static_cast<int64_t>(plans.size()) > kMaxShards) {
    return Invalid("max-shard-bytes: ", options.max_shard_bytes, " makes ", plans.size(), " shards, the limit is ",
                   kMaxShards);
  }
  OutputFolder folder;  // outlives the lock, whose file is in it
  if (absl::Status status = folder.Create(options.folder); !status.ok()) return status;
  absl::StatusOr<FolderLock> lock = FolderLock::Acquire(options.folder);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<Manifest> published = FindPublished(options.folder);
  if (!published.ok()) return published.status();
  absl::StatusOr<std::string> name = ChooseName(options, *published);
  if (!name.ok()) return name.status();
  if (absl::Status status = CheckShape(options, catalog, tokens.dim(), *published); !status.ok()) return status;
  if (options.encoder.has_value() && options.encoder->dim != tokens.dim()) {
    return Invalid("encoder: dim: ", options.encoder->dim, ", and the token vectors' dim is ", tokens.dim());
  }
  const int64_t generation = options.generation == 0 ? published->generation + 1 : options.generation;
  if (generation <= published->generation) {
    return absl::FailedPreconditionError(Cat(options.folder, ": holds generation ", published->generation,
                                             " already; generation ", generation, " cannot follow it"));
  }
  const LogFormat format{catalog.ids.type(), options.storage, static_cast<int32_t>(tokens.dim()),
                         options.storage == ScalarType::kI8 ? options.rotation_seed : 0};
  absl::StatusOr<std::optional<uint64_t>> log_sequence =
      LogSequenceOfBuild(options.folder, format, options.log_sequence);
  if (!log_sequence.ok()) return log_sequence.status();
  RemoveLeftovers(options.folder, *published);

  BuildProgress progress{.stage = BuildProgress::Stage::kWriting,
                         .documents_total = catalog.num_documents(),
                         .shards_total = static_cast<int64_t>(plans.size())};
  for (const ShardPlan& plan : plans) progress.bytes_total += plan.num_bytes;
  if (absl::Status status = CheckSpace(options.folder, progress.bytes_total); !status.ok()) return status;
  const auto report = [&](BuildProgress::Stage stage) {
    progress.stage = stage;
    return observer == nullptr ? absl::OkStatus() : observer(progress);
  };

  Manifest manifest{.name = *name,
                    .generation = generation,
                    .dim = static_cast<int32_t>(tokens.dim()),
                    .storage = options.storage,
                    .rotation_seed = options.storage == ScalarType::kI8 ? options.rotation_seed : 0,
                    .id_type = catalog.ids.type(),
                    .has_payloads = catalog.has_payloads(),
                    .num_documents = catalog.num_documents(),
                    .num_tokens = tokens.num_tokens(),
                    .created_by = options.created_by,
                    .created_at = CreationTime(),
                    .shards = {},
                    .encoder = options.encoder,
                    .log_sequence = *log_sequence};
  const TokenEncoding encoding{options.storage, manifest.rotation_seed, NumThreads(options)};
  UnpublishedFiles files(options.folder);
  int64_t bytes_before = 0;
  for (const ShardPlan& plan : plans) {
    const std::string file = ShardFileName(manifest.generation, progress.shards_done);
    absl::StatusOr<ShardEntry> entry = WriteShard(options.folder, file, plan, encoding, catalog, tokens, payloads,
                                                  [&](int64_t documents, int64_t bytes) {
                                                    progress.documents_done = plan.first_document + documents;
                                                    progress.bytes_done = bytes_before + bytes;
                                                    return report(BuildProgress::Stage::kWriting);
                                                  });
    if (!entry.ok()) return entry.status();
    files.Add(file);
    manifest.shards.push_back(*std::move(entry));
    bytes_before += plan.num_bytes;
    progress.bytes_done = bytes_before;
    progress.documents_done = plan.first_document + plan.num_documents;
    progress.shards_done += 1;
    if (absl::Status status = report(BuildProgress::Stage::kShardDone); !status.ok()) return status;
  }
  if (absl::Status status = report(BuildProgress::Stage::kPublishing); !status.ok()) return status;
  if (absl::Status s = PublishGeneration(manifest, options.folder, files, &progress.synchronised); !s.ok()) return s;
  // From here on the build has succeeded.
  report(BuildProgress::Stage::kPublished).IgnoreError();
  // The removal may reach the disk before the rename does: then the generation before it would need its files.
  if (progress.synchronised.ok()) RemoveOldGenerations(options.folder, manifest, *published);
  return manifest;
}

}  // namespace maxsim::collection
