#include "collection/partition/repartition.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_summary.h"
#include "collection/partition/stored_documents.h"

namespace maxsim::collection {
namespace {

// The collections to read, and the logs of the live ones. While these logs are open, no other process can open them.
struct Sources {
  std::vector<StoredCollection> collections;
  std::vector<std::unique_ptr<CollectionLog>> logs;  // of those that are live
};

absl::Status OpenSource(const std::string& folder, Sources& sources) {
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (IsResidual(manifest->storage)) {
    return absl::FailedPreconditionError(
        Cat(folder, ": is stored as ", Name(manifest->storage), ", which is not split or merged"));
  }
  if (HasLog(folder)) {
    if (absl::Status status = CheckShardsAreComplete(folder, *manifest); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<CollectionLog>> log =
        CollectionLog::Open(folder, LogFormat::Of(*manifest), CollectionLog::Mode::kMustExist);
    if (absl::IsFailedPrecondition(log.status())) {
      return Prefix("a live collection is split or merged while no server has it loaded: ", log.status());
    }
    if (!log.ok()) return log.status();
    // The log is newer than the manifest if a server opened it, wrote to it and closed it after the manifest was read.
    if ((*log)->last_sequence() > manifest->log_sequence.value_or(0)) {
      return absl::FailedPreconditionError(Cat(folder, ": was written to just now"));
    }
    sources.logs.push_back(*std::move(log));
  } else if (absl::Status status = CheckLogIsThere(folder, *manifest); !status.ok()) {
    return status;
  }
  sources.collections.push_back({folder, *std::move(manifest)});
  return absl::OkStatus();
}

absl::Status CheckTargets(const Sources& sources, absl::Span<const PartitionFolder> targets) {
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

absl::StatusOr<std::vector<Manifest>> Write(const Sources& sources, absl::Span<const PartitionFolder> targets,
                                            const RepartitionOptions& options, const BuildObserver& observer) {
  if (absl::Status status = CheckTargets(sources, targets); !status.ok()) return status;
  const Manifest& first = sources.collections.front().manifest;
  BuildOptions build{.folder = options.output,
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
    if (sources.logs.empty()) continue;
    build.log_sequence = std::max(build.log_sequence.value_or(0), source.manifest.log_sequence.value_or(0));
  }
  const bool has_positions = !targets.front().slots.is_whole();
  absl::StatusOr<std::unique_ptr<Catalog>> catalog =
      ReadStoredCatalog(sources.collections, build.has_payloads, has_positions);
  if (!catalog.ok()) return catalog.status();
  StoredTokens tokens(sources.collections);
  StoredPayloads payloads(sources.collections);
  absl::StatusOr<std::vector<Manifest>> manifests =
      BuildPartitions(build, targets, **catalog, tokens, &payloads, observer);
  // Rows were checked before they were written to a shard. So an invalid one means damage.
  if (absl::IsInvalidArgument(manifests.status())) return absl::DataLossError(manifests.status().message());
  if (!manifests.ok() || sources.logs.empty()) return manifests;
  for (size_t idx = 0; idx < targets.size(); ++idx) {
    const absl::StatusOr<std::unique_ptr<CollectionLog>> log = CollectionLog::Open(
        targets[idx].folder, LogFormat::Of((*manifests)[idx]), CollectionLog::Mode::kCreate, *build.log_sequence);
    if (!log.ok()) return Prefix("the result is published, but its log cannot be made: ", log.status());
  }
  return manifests;
}

// Checks that two partitions may be parts of one collection.
absl::Status CheckAlike(const StoredCollection& one, const StoredCollection& other, bool are_live) {
  const Manifest& a = one.manifest;
  const Manifest& b = other.manifest;
  const auto differ = [&](std::string_view what, const std::string& of_one, const std::string& of_other) {
    return absl::FailedPreconditionError(Cat(what, ": ", one.folder, " has ", of_one, ", but ", other.folder, " has ",
                                             of_other, "; partitions of one collection agree"));
  };
  const auto encoder = [](const Manifest& manifest) {
    return manifest.encoder.has_value() ? DescribeEncoder(*manifest.encoder) : std::string("none");
  };
  if (a.name != b.name) return differ("name", Quote(a.name), Quote(b.name));
  if (a.dim != b.dim) return differ("dimension", Cat(a.dim), Cat(b.dim));
  if (a.storage != b.storage) return differ("storage", std::string(Name(a.storage)), std::string(Name(b.storage)));
  if (a.rotation_seed != b.rotation_seed) return differ("rotation seed", Cat(a.rotation_seed), Cat(b.rotation_seed));
  if (a.id_type != b.id_type) {
    return differ("type of ids", std::string(Name(a.id_type)), std::string(Name(b.id_type)));
  }
  if (a.encoder != b.encoder) return differ("encoder", encoder(a), encoder(b));
  if (a.codes != b.codes) return differ("codes", DescribeCodes(a.codes), DescribeCodes(b.codes));
  if (a.fields != b.fields) return differ("fields", DescribeFields(a.fields), DescribeFields(b.fields));
  if (a.generation != b.generation && !are_live) return differ("generation", Cat(a.generation), Cat(b.generation));
  if (a.has_payloads != b.has_payloads && !are_live) {
    return differ("payloads", a.has_payloads ? "some" : "none", b.has_payloads ? "some" : "none");
  }
  return absl::OkStatus();
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
  Sources sources;
  if (absl::Status status = OpenSource(folder, sources); !status.ok()) return status;
  const SlotRange slots = sources.collections.front().manifest.slots();
  if (count < 2 || count > slots.size()) {
    return Invalid("into: ", count, " partitions; ", folder, ", which has ", DescribeSlots(slots),
                   ", can be cut into 2 .. ", slots.size());
  }
  return Write(sources, PartitionFolders(options.output, slots, count), options, observer);
}

absl::StatusOr<Manifest> MergeCollections(const std::vector<std::string>& folders, const RepartitionOptions& options,
                                          const BuildObserver& observer) {
  if (folders.size() < 2) return Invalid(folders.size(), " folders are given; a merge takes two or more");
  Sources sources;
  for (const std::string& folder : folders) {
    if (absl::Status status = OpenSource(folder, sources); !status.ok()) return status;
    if (!sources.collections.back().manifest.partition.has_value()) {
      return Invalid(folder, ": is a whole collection; only partitions can be merged");
    }
  }
  std::stable_sort(sources.collections.begin(), sources.collections.end(),
                   [](const StoredCollection& a, const StoredCollection& b) {
                     return a.manifest.partition->first < b.manifest.partition->first;
                   });
  const bool are_live = sources.logs.size() == sources.collections.size();
  for (size_t idx = 1; idx < sources.collections.size(); ++idx) {
    const StoredCollection& one = sources.collections[idx - 1];
    const StoredCollection& next = sources.collections[idx];
    if (absl::Status status = CheckAdjoin(one, next); !status.ok()) return status;
    if (absl::Status status = CheckAlike(one, next, are_live); !status.ok()) return status;
  }
  const PartitionFolder target{
      options.output,
      {sources.collections.front().manifest.partition->first, sources.collections.back().manifest.partition->end}};
  absl::StatusOr<std::vector<Manifest>> manifests = Write(sources, absl::MakeConstSpan(&target, 1), options, observer);
  if (!manifests.ok()) return manifests.status();
  return std::move(manifests->front());
}

}  // namespace maxsim::collection
