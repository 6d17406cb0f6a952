#include "collection/partition/write_parts.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "collection/build/target_folder.h"
#include "collection/partition/new_folder.h"
#include "collection/partition/part_logs.h"
#include "collection/partition/stored_documents.h"
#include "collection/positions.h"

namespace maxsim::collection {
namespace {

absl::Status CheckTargets(const PartSources& sources, absl::Span<const PartitionFolder> targets) {
  for (const StoredCollection& source : sources.collections) {
    for (const PartitionFolder& target : targets) {
      std::error_code ignored;
      if (std::filesystem::equivalent(source.folder, target.folder, ignored)) {
        return absl::FailedPreconditionError(
            Cat(source.folder, ": the target is a source; it needs a folder of its own"));
      }
    }
  }
  return absl::OkStatus();
}

BuildOptions BuildOptionsOf(const PartSources& sources, const WritePartsOptions& options) {
  const Manifest& first = sources.collections.front().manifest;
  BuildOptions build{.folder = options.folder,
                     .name = first.name,
                     .storage = first.storage,
                     .rotation_seed = first.rotation_seed,
                     .max_shard_bytes = options.max_shard_bytes,
                     .created_by = options.created_by,
                     .encoder = first.encoder,
                     .codes = CodesRequest::Of(first),
                     .fields = first.fields};
  for (const StoredCollection& source : sources.collections) {
    build.has_payloads |= source.manifest.has_payloads;
    build.generation = std::max(build.generation, source.manifest.generation);
  }
  if (sources.any_is_live()) build.log_sequence = PositionOfParts(sources);
  return build;
}

// Writes the shards and manifests of the targets.
absl::StatusOr<std::vector<Manifest>> WriteShardsOf(const PartSources& sources,
                                                    absl::Span<const PartitionFolder> targets,
                                                    const WritePartsOptions& options, const BuildObserver& observer) {
  const BuildOptions build = BuildOptionsOf(sources, options);
  absl::StatusOr<std::unique_ptr<Catalog>> catalog =
      ReadStoredCatalog(sources.collections, {.has_payloads = build.has_payloads,
                                              .has_positions = !targets.front().slots.is_whole(),
                                              .moves_equal_positions = sources.stream().has_value(),
                                              .stop = options.stop});
  if (!catalog.ok()) return catalog.status();
  const std::vector<int32_t>& lengths = (*catalog)->lengths;
  StoredTokens tokens(sources.collections, std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), options.stop);
  StoredPayloads payloads(sources.collections);
  const auto stoppable = [&](const BuildProgress& progress) {
    // Once the results are published, nothing can be stopped any more.
    const bool can_stop = progress.stage != BuildProgress::Stage::kPublished;
    if (can_stop && Stopped(options.stop)) return StopStatus(options.stop);
    return observer == nullptr ? absl::OkStatus() : observer(progress);
  };
  absl::StatusOr<std::vector<Manifest>> manifests =
      BuildPartitions(build, targets, **catalog, tokens, &payloads, stoppable);
  // Rows were valid when they were written to the sources' shards, so an invalid one means damage.
  if (absl::IsInvalidArgument(manifests.status())) return absl::DataLossError(manifests.status().message());
  return manifests;
}

// Renames the finished folders.
absl::Status Publish(const std::vector<std::unique_ptr<NewFolder>>& folders) {
  for (size_t idx = 0; idx < folders.size(); ++idx) {
    absl::Status status = folders[idx]->Publish();
    if (status.ok()) continue;
    if (idx == 0) return status;
    return Prefix(Cat("only ", idx, " of ", folders.size(), " partitions are published; remove them and try again: "),
                  status);
  }
  return absl::OkStatus();
}

// Excludes the documents that were written by messages which a server will apply again (part_logs.h).
void LimitPositions(PartSources& sources) {
  const uint64_t position = PositionOfParts(sources);
  for (size_t idx = 0; idx < sources.logs.size(); ++idx) {
    const bool is_further = sources.logs[idx] != nullptr && sources.logs[idx]->last_sequence() > position;
    if (is_further) sources.collections[idx].max_position = PositionOfWrite(position);
  }
}

absl::StatusOr<std::vector<Manifest>> WriteLive(PartSources& sources, absl::Span<const PartitionFolder> targets,
                                                const WritePartsOptions& options, const BuildObserver& observer) {
  if (sources.stream().has_value()) LimitPositions(sources);
  const absl::StatusOr<PartLogs> logs = PartLogs::Plan(sources, options.stop);
  if (!logs.ok()) return logs.status();
  OutputFolder parents;  // declared before the folders in them, which are removed first
  std::vector<std::unique_ptr<NewFolder>> folders;
  std::vector<PartitionFolder> unfinished;
  for (const PartitionFolder& target : targets) {
    if (absl::Status status = parents.Create(ParentOf(target.folder)); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<NewFolder>> folder = NewFolder::Begin(target.folder);
    if (!folder.ok()) return folder.status();
    unfinished.push_back({(*folder)->path(), target.slots});
    folders.push_back(*std::move(folder));
  }
  WritePartsOptions beside = options;
  beside.folder = ParentOf(targets.front().folder);
  absl::StatusOr<std::vector<Manifest>> manifests = WriteShardsOf(sources, unfinished, beside, observer);
  if (!manifests.ok()) return manifests.status();
  for (size_t idx = 0; idx < unfinished.size(); ++idx) {
    absl::Status status = logs->Make(unfinished[idx].folder, (*manifests)[idx], unfinished[idx].slots);
    if (!status.ok()) return status;
  }
  if (absl::Status status = StopStatus(options.stop); !status.ok()) return status;
  if (absl::Status status = Publish(folders); !status.ok()) return status;
  return manifests;
}

}  // namespace

absl::StatusOr<std::vector<Manifest>> WriteParts(PartSources& sources, absl::Span<const PartitionFolder> targets,
                                                 const WritePartsOptions& options, const BuildObserver& observer) {
  if (absl::Status status = CheckTargets(sources, targets); !status.ok()) return status;
  return sources.any_is_live() ? WriteLive(sources, targets, options, observer)
                               : WriteShardsOf(sources, targets, options, observer);
}

}  // namespace maxsim::collection
