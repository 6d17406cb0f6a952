#include "server/store/collection_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/file_checks.h"
#include "server/observability/log_event.h"
#include "server/store/memory_plan.h"
#include "server/store/part_loader.h"

namespace maxsim::store {
namespace {

constexpr size_t kLoggedShards = 64;  // lines of the memory plan in the log; CollectionStore::MemoryPlan shows all

std::string Purpose(const LoadRequest& request, const collection::Manifest& manifest) {
  std::string text = Cat("generation ", manifest.generation, " of collection ", request.name);
  if (request.served != nullptr) {
    text += Cat(" (a reload holds both generations until the swap; generation ", request.served->manifest().generation,
                " holds ", FormatBytesExactly(request.served->resident_bytes()), ")");
  }
  return text;
}

void LogPlan(const LoadRequest& request, const collection::Manifest& manifest, const DeviceSet& devices,
             const MemoryPlan& plan) {
  uint64_t available_bytes = 0;
  for (const MemoryLedger::Availability& device : plan.memory.devices) available_bytes += device.available_bytes;
  uint64_t needed_bytes = 0;
  for (size_t device = 0; device < devices.size(); ++device) {
    needed_bytes += plan.memory.Needed(plan.placement.demand, device);
  }
  log::WriteTable(spdlog::level::info, "memory_plan",
                  {{"collection", request.name},
                   {"residency", std::string(Name(request.residency))},
                   {"needed_bytes", needed_bytes},
                   {"available_bytes", available_bytes},
                   {"pinned_bytes", plan.placement.demand.host_bytes},
                   {"fits", plan.fits()}},
                  FormatMemoryPlan(devices, manifest, plan, kLoggedShards));
}

// Logs a warning if residency kAuto has put some shards in the tier disk.
void WarnOfSlowTiers(const LoadRequest& request, const MemoryPlan& plan) {
  const auto on_disk =
      std::count_if(plan.placement.shards.begin(), plan.placement.shards.end(),
                    [](const ShardPlacement& placement) { return placement.tier.tier == Residency::kDisk; });
  if (request.residency != Residency::kAuto || on_disk == 0) return;
  const bool held = request.served != nullptr && request.served->tiers().find("disk") == std::string::npos;
  log::Write(spdlog::level::warn, "collection_on_disk",
             {{"name", request.name},
              {"shards_on_disk", on_disk},
              {"shards", plan.placement.shards.size()},
              {"reason", held ? "memory does not hold both generations: the new one is read from its files"
                              : "memory does not hold them: they are read from their files, which is slower"},
              {"hint", "residency host refuses it instead"}});
}

struct Reserved {
  MemoryPlan plan;
  std::shared_ptr<Reservation> reservation;
  std::unique_ptr<FileLedger::Reservation> files;
};

// Checks that each file exists and has the size for which memory was reserved. So a missing or damaged file ends the
// load now, and not after other files were read for hours.
absl::Status CheckSizes(const LoadRequest& request, const collection::Manifest& manifest, int code_planes) {
  for (const collection::ShardEntry& entry : manifest.shards) {
    if (absl::Status status = StopStatus(request.stop); !status.ok()) return status;
    const absl::StatusOr<InputFile> file = request.folder->Open(entry.file);
    if (!file.ok()) return file.status();
    if (absl::Status status = collection::CheckSize(*file, entry); !status.ok()) return status;
    if (entry.field_file.has_value()) {
      const absl::StatusOr<InputFile> fields = request.folder->Open(entry.field_file->file);
      if (!fields.ok()) return fields.status();
      absl::Status status = collection::CheckFileSize(*fields, entry.field_file->num_bytes);
      if (!status.ok()) return status;
    }
    for (size_t idx = 0; idx < collection::NumCodeFiles(code_planes); ++idx) {
      const absl::StatusOr<InputFile> codes = request.folder->Open(entry.code_files[idx].file);
      if (!codes.ok()) return codes.status();
      absl::Status status = collection::CheckFileSize(*codes, entry.code_files[idx].num_bytes);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Reserved> Reserve(const LoadRequest& request, const collection::Manifest& manifest, DeviceSet* devices,
                                 const StoreOptions& options, MemoryLedger* ledger, FileLedger* files) {
  const std::string purpose = Purpose(request, manifest);
  // Another load may reserve the memory after this load has planned with it. In this case kAuto plans again.
  constexpr int kMaxAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<MemoryPlan> plan =
        PlanMemory(*devices, manifest, request.residency, request.replication, options, ledger->Available());
    if (!plan.ok()) return plan.status();
    absl::StatusOr<std::shared_ptr<Reservation>> reservation = ledger->Reserve(plan->placement.demand, purpose);
    const bool raced =
        !reservation.ok() && plan->fits() && request.residency == Residency::kAuto && attempt < kMaxAttempts;
    if (raced) continue;
    LogPlan(request, manifest, *devices, *plan);
    if (!reservation.ok()) return reservation.status();
    WarnOfSlowTiers(request, *plan);
    absl::StatusOr<std::unique_ptr<FileLedger::Reservation>> opened =
        files->Reserve(FilesToLoad(plan->placement, plan->code_planes, devices->is_gpu(), options), purpose);
    if (!opened.ok()) return opened.status();
    return Reserved{*std::move(plan), *std::move(reservation), *std::move(opened)};
  }
}

// Returns whether both shards have the same field values.
bool HaveSameFields(const collection::ShardEntry& a, const collection::ShardEntry& b) {
  if (!a.field_file.has_value() || !b.field_file.has_value())
    return a.field_file.has_value() == b.field_file.has_value();
  return a.field_file->checksum == b.field_file->checksum;
}

// Returns, for each of the manifest's shards, the served part that can be reused, or null if the shard must be loaded.
std::vector<const Part*> SharedParts(const LoadRequest& request, const collection::Manifest& manifest,
                                     const DeviceSet& devices) {
  std::vector<const Part*> shared(manifest.shards.size());
  if (!request.share_parts || request.served == nullptr) return shared;
  const collection::Manifest& served = request.served->manifest();
  const bool same_kind = served.dim == manifest.dim && served.storage == manifest.storage &&
                         served.rotation_seed == manifest.rotation_seed && served.id_type == manifest.id_type &&
                         served.codes == manifest.codes && served.fields == manifest.fields;
  if (!same_kind) return shared;
  absl::flat_hash_map<std::string, size_t> by_checksum;
  for (size_t idx = 0; idx < served.shards.size(); ++idx) by_checksum[served.shards[idx].checksum] = idx;
  for (size_t idx = 0; idx < manifest.shards.size(); ++idx) {
    const auto found = by_checksum.find(manifest.shards[idx].checksum);
    if (found == by_checksum.end() || served.shards[found->second].file != manifest.shards[idx].file) continue;
    if (!HaveSameFields(served.shards[found->second], manifest.shards[idx])) continue;
    const Part& part = request.served->part(found->second);
    const bool is_whole = std::all_of(part.replicas.begin(), part.replicas.end(),
                                      [&](const Replica& replica) { return devices.alive(replica.device); });
    const bool is_unchanged = part.shard->Check().ok() && (part.codes == nullptr || part.codes->Check().ok());
    if (is_whole && is_unchanged) shared[idx] = &part;
  }
  return shared;
}

// The shards that must be loaded, because the served generation has no part that can be reused for them (SharedParts).
// With several devices, these shards are replicated if the reused parts are. If no part is reused, the request decides.
struct Remainder {
  collection::Manifest manifest;  // only the shards for which no part is shared
  LoadRequest request;
};

Remainder RemainderOf(const LoadRequest& request, const collection::Manifest& manifest,
                      const std::vector<const Part*>& shared, const DeviceSet& devices) {
  Remainder remainder{manifest, request};
  remainder.manifest.shards.clear();
  for (size_t idx = 0; idx < shared.size(); ++idx) {
    if (shared[idx] == nullptr) {
      remainder.manifest.shards.push_back(manifest.shards[idx]);
    } else if (devices.size() > 1) {
      remainder.request.replication = shared[idx]->replicas.size() > 1 ? Replication::kOn : Replication::kOff;
    }
  }
  return remainder;
}

// Returns how many planes of codes (bits per value) are worth loading. A scan reads only as many planes as every part
// has, so more planes than a shared part has would be of no use.
int MaxCodePlanes(const StoreOptions& options, const std::vector<const Part*>& shared) {
  int planes = options.max_code_planes;
  for (const Part* const part : shared) {
    if (part != nullptr) planes = std::min(planes, part->code_planes());
  }
  return planes;
}

// Puts shared and loaded parts in the manifest's order, and numbers their documents.
std::vector<Part> Merge(const std::vector<const Part*>& shared, std::vector<Part> loaded) {
  std::vector<Part> parts;
  parts.reserve(shared.size());
  size_t next_loaded = 0;
  uint64_t first_ordinal = 0;
  for (const Part* const part : shared) {
    if (part != nullptr) {
      parts.push_back(*part);
    } else {
      parts.push_back(std::move(loaded[next_loaded++]));
    }
    parts.back().first_ordinal = first_ordinal;
    first_ordinal += static_cast<uint64_t>(parts.back().num_documents());
  }
  return parts;
}

// In a partition, returns DATA_LOSS unless the documents' positions in the whole collection ascend from shard to shard.
// (Within a shard they always ascend.) Documents with equal scores must be ordered by position, but scoring orders them
// by ordinal. So both orders must agree.
absl::Status CheckPositions(const std::vector<Part>& parts) {
  for (size_t idx = 1; idx < parts.size(); ++idx) {
    const collection::Shard& before = *parts[idx - 1].shard;
    const collection::Shard& shard = *parts[idx].shard;
    if (shard.ordinals() == nullptr) return absl::OkStatus();
    const int64_t last = before.ordinals()[before.documents().num_documents - 1];
    if (shard.ordinals()[0] <= last) {
      return absl::DataLossError(Cat(shard.path(), ": ordinals[0]: ", shard.ordinals()[0], " is not above ", last,
                                     ", the last one of ", before.path()));
    }
  }
  return absl::OkStatus();
}

void LogLoaded(const std::shared_ptr<const Generation>& generation, size_t num_shared, absl::Duration duration) {
  const Collection collection(generation);
  log::Write(spdlog::level::info, "collection_loaded",
             {{"name", generation->name()},
              {"generation", generation->manifest().generation},
              {"documents", collection.num_documents()},
              {"tokens", collection.num_tokens()},
              {"shards", generation->parts().size()},
              {"shards_kept", num_shared},
              {"code_planes", generation->code_planes()},
              {"residency", collection.tiers()},
              {"resident_bytes", collection.resident_bytes()},
              {"index_bytes", collection.index_bytes()},
              {"seconds", log::Value::Number(absl::StrFormat("%.3f", absl::ToDoubleSeconds(duration)))}});
}

absl::StatusOr<std::shared_ptr<const Generation>> LoadOnce(const LoadRequest& request,
                                                           const collection::Manifest& manifest, DeviceSet* devices,
                                                           const StoreOptions& options, MemoryLedger* ledger,
                                                           FileLedger* files) {
  const absl::Time start = MonotonicNow();
  if (absl::Status status = StopStatus(request.stop); !status.ok()) return status;
  const std::vector<const Part*> shared = SharedParts(request, manifest, *devices);
  const Remainder remainder = RemainderOf(request, manifest, shared, *devices);
  StoreOptions planned = options;
  planned.max_code_planes = MaxCodePlanes(options, shared);
  absl::StatusOr<Reserved> reserved = Reserve(remainder.request, remainder.manifest, devices, planned, ledger, files);
  if (!reserved.ok()) return reserved.status();
  if (absl::Status status = CheckSizes(request, remainder.manifest, reserved->plan.code_planes); !status.ok())
    return status;
  const PartLoadRequest part_request{.folder = request.folder,
                                     .manifest = &remainder.manifest,
                                     .placement = &reserved->plan.placement,
                                     .code_planes = reserved->plan.code_planes,
                                     .stop = request.stop};
  absl::StatusOr<std::vector<Part>> loaded =
      LoadParts(part_request, devices, options, reserved->reservation.get(), reserved->files.get());
  if (!loaded.ok()) return loaded.status();
  std::vector<Part> parts = Merge(shared, *std::move(loaded));

  if (absl::Status status = CheckPositions(parts); !status.ok()) return status;
  std::vector<std::shared_ptr<const collection::Shard>> shards;
  shards.reserve(parts.size());
  for (const Part& part : parts) shards.push_back(part.shard);
  absl::StatusOr<IdIndex> index = IdIndex::Build(shards, request.stop, request.tombstones);
  if (!index.ok()) return index.status();

  auto generation = std::make_shared<const Generation>(Generation::Contents{.name = request.name,
                                                                            .path = request.folder->path(),
                                                                            .manifest = manifest,
                                                                            .parts = std::move(parts),
                                                                            .index = *std::move(index),
                                                                            .on_gpu = devices->is_gpu(),
                                                                            .loaded_at = absl::Now(),
                                                                            .tombstones = request.tombstones,
                                                                            .code_planes = reserved->plan.code_planes,
                                                                            .filter_cache = request.filter_cache});
  LogLoaded(generation, shared.size() - remainder.manifest.shards.size(), MonotonicNow() - start);
  return generation;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Generation>> LoadGeneration(const LoadRequest& request,
                                                                 const collection::Manifest& manifest,
                                                                 DeviceSet* devices, const StoreOptions& options,
                                                                 MemoryLedger* ledger, FileLedger* files) {
  while (true) {
    devices->Poll();
    const size_t num_alive = devices->num_alive();
    absl::StatusOr<std::shared_ptr<const Generation>> loaded =
        LoadOnce(request, manifest, devices, options, ledger, files);
    // Tries again only if a device was lost during this attempt. So the loop ends, at the latest when no device is
    // left.
    if (!absl::IsUnavailable(loaded.status()) || devices->num_alive() == num_alive || !devices->Health().ok() ||
        Stopped(request.stop)) {
      return loaded;
    }
    log::Write(spdlog::level::warn, "load_begins_again",
               {{"name", request.name}, {"reason", loaded.status().ToString()}});
  }
}

}  // namespace maxsim::store
