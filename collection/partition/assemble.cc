#include "collection/partition/assemble.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "base/guard.h"
#include "base/text.h"
#include "collection/build/target_folder.h"
#include "collection/compact/compact.h"
#include "collection/log/collection_log.h"
#include "collection/partition/choose_sources.h"
#include "collection/partition/new_folder.h"
#include "collection/partition/part_sources.h"
#include "collection/partition/snapshot_folder.h"
#include "collection/partition/write_parts.h"

namespace maxsim::collection {
namespace {

// Opens the snapshots, and checks that they are of one live collection.
absl::StatusOr<PartSources> OpenSnapshots(const std::vector<std::string>& folders) {
  if (folders.empty()) return Invalid("sources: there are none");
  PartSources sources;
  for (const std::string& folder : folders) {
    absl::StatusOr<Manifest> manifest = ReadManifest(folder);
    if (!manifest.ok()) return manifest.status();
    if (absl::Status status = CheckLogIsThere(folder, *manifest); !status.ok()) return status;
    if (!HasLog(folder)) {
      return absl::FailedPreconditionError(Cat(folder, ": has no log; only live collections are assembled"));
    }
    absl::StatusOr<std::unique_ptr<CollectionLog>> log = OpenSourceLog(folder, *manifest, "assembled");
    if (!log.ok()) return log.status();
    sources.collections.push_back({folder, *std::move(manifest)});
    sources.logs.push_back(*std::move(log));
    const StoredCollection& first = sources.collections.front();
    absl::Status status = CheckAlike(first, sources.collections.back(), /*are_live=*/true);
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckStreams(sources); !status.ok()) return status;
  return sources;
}

absl::StatusOr<std::vector<SlotShare>> Choose(const PartSources& sources, const SlotRange& wanted) {
  std::vector<SlotSource> choices;
  for (size_t idx = 0; idx < sources.collections.size(); ++idx) {
    const Manifest& manifest = sources.collections[idx].manifest;
    SlotSource& choice = choices.emplace_back();
    choice.slots = manifest.slots();
    choice.sequence = sources.logs[idx]->last_sequence();
    for (const ShardEntry& shard : manifest.shards) choice.num_bytes += shard.num_bytes;
  }
  absl::StatusOr<std::vector<SlotShare>> shares = ChooseSources(choices, wanted);
  if (!shares.ok() || shares->size() == 1 || sources.stream().has_value()) return shares;
  // Without a stream, each server has only the writes that it received. If two sources have the same slot, their
  // documents may differ, and it is unknown which are right.
  for (const SlotShare& share : *shares) {
    const StoredCollection& source = sources.collections[share.source];
    if (share.slots == source.manifest.slots()) continue;
    return absl::FailedPreconditionError(Cat("slots: only ", DescribeSlots(share.slots), " are wanted of ",
                                             source.folder, ", which has ", DescribeSlots(source.manifest.slots()),
                                             "; collections whose logs follow no stream are joined whole"));
  }
  return shares;
}

// Makes the result a copy of a source that has exactly the wanted slots.
absl::StatusOr<Manifest> CopySource(const PartSources& sources, size_t idx, const AssembleOptions& options) {
  const StoredCollection& source = sources.collections[idx];
  OutputFolder parents;
  if (absl::Status status = parents.Create(ParentOf(options.output)); !status.ok()) return status;
  const absl::StatusOr<uint64_t> sequence =
      MakeSnapshotFolder(source.folder, source.manifest, *sources.logs[idx], options.output, options.stop);
  if (!sequence.ok()) return sequence.status();
  return ReadManifest(options.output);
}

// Returns the chosen sources, in the order of their slots. Closes the logs of the other sources.
PartSources Take(PartSources sources, const std::vector<SlotShare>& shares) {
  PartSources taken;
  for (const SlotShare& share : shares) {
    taken.collections.push_back(std::move(sources.collections[share.source]));
    taken.collections.back().slots = share.slots;
    taken.logs.push_back(std::move(sources.logs[share.source]));
  }
  return taken;
}

// Merges all writes of a snapshot's log into its shards, so that no shard has a document that was replaced or deleted.
absl::Status CompactSnapshot(StoredCollection& source, CollectionLog& log, const AssembleOptions& options) {
  absl::StatusOr<CompactResult> compacted = Compact(source.folder, log, log.last_sequence(),
                                                    {.max_tombstone_share = 0,
                                                     .max_shard_bytes = options.max_shard_bytes,
                                                     .created_by = options.created_by,
                                                     .stop = options.stop});
  if (!compacted.ok()) return compacted.status();
  source.manifest = std::move(compacted->manifest);
  return absl::OkStatus();
}

absl::StatusOr<Manifest> Assemble(const std::vector<std::string>& folders, const AssembleOptions& options,
                                  const BuildObserver& observer) {
  if (absl::Status status = CheckIsNew(options.output); !status.ok()) return status;
  absl::StatusOr<PartSources> all = OpenSnapshots(folders);
  if (!all.ok()) return all.status();
  const absl::StatusOr<std::vector<SlotShare>> shares = Choose(*all, options.slots);
  if (!shares.ok()) return shares.status();
  const size_t first = shares->front().source;
  if (shares->size() == 1 && all->collections[first].manifest.slots() == options.slots) {
    return CopySource(*all, first, options);
  }
  PartSources sources = Take(*std::move(all), *shares);
  for (size_t idx = 0; idx < sources.logs.size(); ++idx) {
    absl::Status status = CompactSnapshot(sources.collections[idx], *sources.logs[idx], options);
    if (!status.ok()) return status;
  }
  const PartitionFolder target{options.output, options.slots};
  absl::StatusOr<std::vector<Manifest>> manifests = WriteParts(sources, absl::MakeConstSpan(&target, 1),
                                                               {.folder = options.output,
                                                                .max_shard_bytes = options.max_shard_bytes,
                                                                .created_by = options.created_by,
                                                                .stop = options.stop},
                                                               observer);
  if (!manifests.ok()) return manifests.status();
  return std::move(manifests->front());
}

}  // namespace

absl::StatusOr<Manifest> AssembleLive(const std::vector<std::string>& folders, const AssembleOptions& options,
                                      const BuildObserver& observer) {
  return Guarded([&] { return Assemble(folders, options, observer); });
}

}  // namespace maxsim::collection
