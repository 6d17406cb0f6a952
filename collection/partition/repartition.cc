#include "collection/partition/repartition.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_summary.h"
#include "collection/partition/part_sources.h"
#include "collection/partition/stored_documents.h"
#include "collection/partition/write_parts.h"

namespace maxsim::collection {
namespace {

// Opens a collection that is to be split or merged. All writes of its log must be merged into its shards.
absl::Status OpenSource(const std::string& folder, PartSources& sources) {
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (IsResidual(manifest->storage)) {
    return absl::FailedPreconditionError(
        Cat(folder, ": is stored as ", Name(manifest->storage), ", which is not split or merged"));
  }
  std::unique_ptr<CollectionLog> log;
  if (HasLog(folder)) {
    if (absl::Status status = CheckShardsAreComplete(folder, *manifest); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<CollectionLog>> opened = OpenSourceLog(folder, *manifest, "split or merged");
    if (!opened.ok()) return opened.status();
    log = *std::move(opened);
    // Compares again, because a server may have written to the log between the check above and opening the log.
    const uint64_t held = manifest->log_sequence.value_or(0);
    if (log->last_sequence() > held) return absl::FailedPreconditionError(Cat(folder, ": was written to just now"));
    if (log->last_sequence() < held) {
      return absl::DataLossError(Cat(folder, ": its shards hold the writes up to sequence ", held,
                                     ", but its log ends with ", log->last_sequence(), ": it has lost some"));
    }
  } else if (absl::Status status = CheckLogIsThere(folder, *manifest); !status.ok()) {
    return status;
  }
  sources.collections.push_back({folder, *std::move(manifest)});
  sources.logs.push_back(std::move(log));
  return absl::OkStatus();
}

WritePartsOptions OptionsOf(const RepartitionOptions& options) {
  return {.folder = options.output, .max_shard_bytes = options.max_shard_bytes, .created_by = options.created_by};
}

absl::Status CheckAdjoin(const StoredCollection& one, const StoredCollection& next) {
  const SlotRange a = one.manifest.slots();
  const SlotRange b = next.manifest.slots();
  if (a.end == b.first) return absl::OkStatus();
  const std::string both =
      Cat(one.folder, " has ", DescribeSlots(a), ", and ", next.folder, " has ", DescribeSlots(b), ": ");
  if (a.end > b.first) return absl::FailedPreconditionError(Cat(both, "they overlap"));
  return absl::FailedPreconditionError(Cat(both, DescribeSlots({a.end, b.first}), " are missing between them"));
}

PartSources InOrderOfSlots(PartSources sources) {
  std::vector<size_t> order(sources.collections.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return sources.collections[a].manifest.partition->first < sources.collections[b].manifest.partition->first;
  });
  PartSources ordered;
  for (const size_t idx : order) {
    ordered.collections.push_back(std::move(sources.collections[idx]));
    ordered.logs.push_back(std::move(sources.logs[idx]));
  }
  return ordered;
}

}  // namespace

std::string PartitionFolderName(const std::string& output, const SlotRange& slots, int32_t index, int32_t count) {
  return JoinPath(output, slots.is_whole() ? Cat("partition-", index, "-of-", count)
                                           : Cat("slots-", FormatSlotRange(PartitionOf(slots, index, count))));
}

std::vector<PartitionFolder> PartitionFolders(const std::string& output, const SlotRange& slots, int32_t count) {
  std::vector<PartitionFolder> folders;
  for (int32_t index = 0; index < count; ++index) {
    folders.push_back({PartitionFolderName(output, slots, index, count), PartitionOf(slots, index, count)});
  }
  return folders;
}

absl::StatusOr<std::vector<Manifest>> SplitCollection(const std::string& folder, int32_t count,
                                                      const RepartitionOptions& options,
                                                      const BuildObserver& observer) {
  PartSources sources;
  if (absl::Status status = OpenSource(folder, sources); !status.ok()) return status;
  const SlotRange slots = sources.collections.front().manifest.slots();
  if (count < 2 || count > slots.size()) {
    return Invalid("into: ", count, " partitions; ", folder, ", which has ", DescribeSlots(slots),
                   ", can be cut into 2 .. ", slots.size());
  }
  return WriteParts(sources, PartitionFolders(options.output, slots, count), OptionsOf(options), observer);
}

absl::StatusOr<Manifest> MergeCollections(const std::vector<std::string>& folders, const RepartitionOptions& options,
                                          const BuildObserver& observer) {
  if (folders.size() < 2) return Invalid(folders.size(), " folders are given; a merge takes two or more");
  PartSources opened;
  for (const std::string& folder : folders) {
    if (absl::Status status = OpenSource(folder, opened); !status.ok()) return status;
    if (!opened.collections.back().manifest.partition.has_value()) {
      return Invalid(folder, ": is a whole collection; only partitions can be merged");
    }
  }
  PartSources sources = InOrderOfSlots(std::move(opened));
  for (size_t idx = 1; idx < sources.collections.size(); ++idx) {
    const StoredCollection& one = sources.collections[idx - 1];
    const StoredCollection& next = sources.collections[idx];
    if (absl::Status status = CheckAdjoin(one, next); !status.ok()) return status;
    if (absl::Status status = CheckAlike(one, next, sources.all_are_live()); !status.ok()) return status;
  }
  if (absl::Status status = CheckStreams(sources); !status.ok()) return status;
  const PartitionFolder target{
      options.output,
      {sources.collections.front().manifest.partition->first, sources.collections.back().manifest.partition->end}};
  absl::StatusOr<std::vector<Manifest>> manifests =
      WriteParts(sources, absl::MakeConstSpan(&target, 1), OptionsOf(options), observer);
  if (!manifests.ok()) return manifests.status();
  return std::move(manifests->front());
}

}  // namespace maxsim::collection
