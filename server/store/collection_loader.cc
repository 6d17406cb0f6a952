#include "server/store/collection_loader.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "base/units.h"
#include "server/observability/log_event.h"
#include "server/store/memory_plan.h"

namespace maxsim::store {
namespace {

constexpr size_t kLoggedShards = 64;  // lines of the memory plan in the log; CollectionStore::MemoryPlan shows all

// Finds the first value no backend could score; an Infinity or NaN in a document would make every ranking it enters
// meaningless.
absl::Status CheckValues(const collection::Shard& shard, const StopSignal* stop) {
  const DocumentsView& documents = shard.documents();
  const auto count = static_cast<size_t>(documents.num_tokens()) * static_cast<size_t>(documents.dim);
  const size_t block_size = kStopBlockBytes / SizeOf(documents.type);
  std::optional<size_t> bad;
  for (size_t begin = 0; begin < count && !bad.has_value(); begin += block_size) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    const auto* const block = static_cast<const uint8_t*>(documents.tokens) + begin * SizeOf(documents.type);
    bad = FindUnusableElement(documents.type, block, std::min(block_size, count - begin));
    if (bad.has_value()) *bad += begin;
  }
  if (!bad.has_value()) return absl::OkStatus();
  const auto token = static_cast<int64_t>(*bad / static_cast<size_t>(documents.dim));
  const int64_t* end = documents.offsets + documents.num_documents + 1;
  const int64_t document = std::upper_bound(documents.offsets, end, token) - documents.offsets - 1;
  return absl::DataLossError(Cat(shard.path(), ": document ", document, ", token ", token - documents.offsets[document],
                                 ", column ", *bad % static_cast<size_t>(documents.dim),
                                 documents.type == ScalarType::kI8
                                     ? std::string(" is -128, which is not in -127 .. 127")
                                     : Cat(" is not finite, or beyond a magnitude of ", kMaxAbsValue)));
}

// Returns the memory that one shard takes where the plan puts it.
MemoryDemand DemandOf(const ShardPlacement& placement, size_t num_devices) {
  MemoryDemand demand;
  demand.device_bytes.resize(num_devices);
  for (const uint32_t device : placement.devices) {
    demand.device_bytes[device] = placement.tier.need.device_bytes;
    demand.host_bytes += placement.tier.need.host_bytes;
  }
  return demand;
}

// Returns the descriptors and mappings that a loaded shard keeps. A shard that is scored from its file keeps it open,
// to see whether it is written to. A mapped file is three mappings (the sections before the tokens, the tokens, the
// sections behind them); the middle one remains reserved when a GPU has copied it. A file that is read whole is one
// mapping.
FileDemand FilesOf(Residency tier, bool is_gpu) {
  const bool is_mapped = is_gpu || tier == Residency::kDisk;
  return {.descriptors = tier == Residency::kDisk ? 1 : 0, .mappings = is_mapped ? 3 : 1};
}

size_t NumThreads(const StoreOptions& options, size_t num_shards) {
  return std::min<size_t>(static_cast<size_t>(std::max(options.load_threads, 1)), num_shards);
}

// Loads the shards of one collection side by side.
class PartLoader {
 public:
  PartLoader(const LoadRequest& request, const collection::Manifest& manifest, const Placement& placement,
             DeviceSet* devices, const StoreOptions& options, Reservation* reservation, FileLedger::Reservation* files)
      : request_(request),
        manifest_(manifest),
        placement_(placement),
        devices_(*devices),
        options_(options),
        reservation_(reservation),
        files_(files),
        parts_(manifest.shards.size()) {}

  absl::StatusOr<std::vector<Part>> Run() {
    const size_t num_threads = NumThreads(options_, parts_.size());
    std::vector<std::thread> threads;
    // The calling thread loads too, so that a machine out of threads still loads.
    for (size_t idx = 1; idx < num_threads; ++idx) {
      try {
        threads.emplace_back([this] {
          NameThisThread("load");
          Work();
        });
      } catch (const std::system_error& error) {
        log::Write(spdlog::level::warn, "load_threads",
                   {{"requested", num_threads}, {"started", threads.size() + 1}, {"error", error.what()}});
        break;
      }
    }
    Work();
    for (std::thread& thread : threads) thread.join();
    {
      const MutexLock lock(&mutex_);
      if (!error_.ok()) return error_;
    }
    if (absl::Status status = StopStatus(request_.stop); !status.ok()) return status;
    return std::move(parts_);
  }

 private:
  void Work() {
    while (!failed_.load(std::memory_order_relaxed) && !Stopped(request_.stop)) {
      const size_t idx = next_.fetch_add(1, std::memory_order_relaxed);
      if (idx >= parts_.size()) return;
      absl::Status status;
      try {
        status = LoadPart(manifest_.shards[idx], placement_.shards[idx], &parts_[idx]);
      } catch (const std::bad_alloc&) {
        status = absl::ResourceExhaustedError(Cat("no memory to load ", manifest_.shards[idx].file));
      }
      if (status.ok()) continue;
      const MutexLock lock(&mutex_);
      if (error_.ok()) error_ = status;
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  absl::Status LoadPart(const collection::ShardEntry& entry, const ShardPlacement& placement, Part* part) {
    const MemoryDemand demand = DemandOf(placement, devices_.size());
    const std::shared_ptr<Reservation> reservation = reservation_->Split(demand);
    const Residency tier = placement.tier.tier;
    // GPUs copy the tokens out of the mapping, except on tier kDisk. The other sections are copied in any case.
    const bool reads_whole_file = !devices_.is_gpu() && tier == Residency::kHost;
    absl::StatusOr<std::shared_ptr<collection::Shard>> shard =
        collection::Shard::Open(*request_.folder, manifest_, entry,
                                reads_whole_file ? collection::Access::kCopied : collection::Access::kMapped,
                                options_.verify_checksums, request_.stop);
    if (!shard.ok()) return shard.status();
    // Values are checked whether or not the file is hashed: a checksum says that a file is what its writer wrote, not
    // that it can be scored, and no code behind this point copes with NaN.
    if (absl::Status status = CheckValues(**shard, request_.stop); !status.ok()) return status;
    for (const uint32_t device : placement.devices) {
      if (absl::Status status = StopStatus(request_.stop); !status.ok()) return status;
      absl::StatusOr<std::unique_ptr<Documents>> documents =
          devices_.backend(device).Load((*shard)->documents(), TierOf(tier), *shard);
      if (absl::IsUnavailable(documents.status())) devices_.MarkLost(device, documents.status());
      if (!documents.ok()) {
        return absl::Status(documents.status().code(), Cat((*shard)->path(), ": ", documents.status().message()));
      }
      part->replicas.push_back({device, *std::move(documents)});
    }
    // This check tells whether the file still holds what was checked and copied.
    if (absl::Status status = (*shard)->Check(); !status.ok()) return status;
    if (devices_.is_gpu() && tier != Residency::kDisk) (*shard)->ReleaseTokens();
    reservation->Commit(demand);
    files_->Commit(FilesOf(tier, devices_.is_gpu()));
    part->shard = *std::move(shard);
    part->tier = tier;
    part->reservation = reservation;
    part->view = part->shard->documents();
    return absl::OkStatus();
  }

  const LoadRequest& request_;
  const collection::Manifest& manifest_;
  const Placement& placement_;
  DeviceSet& devices_;
  const StoreOptions& options_;
  Reservation* const reservation_;
  FileLedger::Reservation* const files_;
  std::vector<Part> parts_;  // An element is written by the one thread that took its index from next_.
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

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
  for (const uint64_t bytes : plan.placement.demand.device_bytes) needed_bytes += bytes;
  log::WriteTable(spdlog::level::info, "memory_plan",
                  {{"collection", request.name},
                   {"residency", std::string(Name(request.residency))},
                   {"needed_bytes", needed_bytes},
                   {"available_bytes", available_bytes},
                   {"pinned_bytes", plan.placement.demand.host_bytes},
                   {"fits", plan.fits() ? "true" : "false"}},
                  FormatMemoryPlan(devices, manifest, plan, kLoggedShards));
}

// Warns where kAuto chose the tier disk and an operator might have expected a faster one.
void WarnOfSlowTiers(const LoadRequest& request, const MemoryPlan& plan) {
  const auto on_disk =
      std::count_if(plan.placement.shards.begin(), plan.placement.shards.end(),
                    [](const ShardPlacement& placement) { return placement.tier.tier == Residency::kDisk; });
  if (request.residency != Residency::kAuto || on_disk == 0) return;
  const bool held = request.served != nullptr && request.served->tiers().find("disk") == std::string::npos;
  log::Write(spdlog::level::warn, "collection_on_disk",
             {{"name", request.name},
              {"shards", absl::StrCat(on_disk, " of ", plan.placement.shards.size())},
              {"reason", held ? "memory does not hold both generations: the new one is read from its files"
                              : "memory does not hold them: they are read from their files, which is slower"},
              {"hint", "residency host refuses it instead"}});
}

struct Reserved {
  MemoryPlan plan;
  std::shared_ptr<Reservation> reservation;
  std::unique_ptr<FileLedger::Reservation> files;
};

absl::StatusOr<std::unique_ptr<FileLedger::Reservation>> ReserveFiles(const LoadRequest& request,
                                                                      const collection::Manifest& manifest,
                                                                      const DeviceSet& devices,
                                                                      const Placement& placement,
                                                                      const StoreOptions& options, FileLedger* files) {
  FileDemand demand;
  for (const ShardPlacement& shard : placement.shards) {
    const FileDemand one = FilesOf(shard.tier.tier, devices.is_gpu());
    demand.descriptors += one.descriptors;
    demand.mappings += one.mappings;
  }
  demand.descriptors += static_cast<int64_t>(NumThreads(options, manifest.shards.size()));
  return files->Reserve(demand, Purpose(request, manifest));
}

// Checks that each file exists and has the size that memory was reserved for, before hours go into reading the others.
absl::Status CheckSizes(const LoadRequest& request, const collection::Manifest& manifest) {
  for (const collection::ShardEntry& entry : manifest.shards) {
    if (absl::Status status = StopStatus(request.stop); !status.ok()) return status;
    const absl::StatusOr<InputFile> file = request.folder->Open(entry.file);
    if (!file.ok()) return file.status();
    if (absl::Status status = collection::CheckSize(*file, entry); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Reserved> Reserve(const LoadRequest& request, const collection::Manifest& manifest, DeviceSet* devices,
                                 const StoreOptions& options, MemoryLedger* ledger, FileLedger* files) {
  const std::string purpose = Purpose(request, manifest);
  // Another load may take the memory between planning and reserving; kAuto then plans again.
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
        ReserveFiles(request, manifest, *devices, plan->placement, options, files);
    if (!opened.ok()) return opened.status();
    return Reserved{*std::move(plan), *std::move(reservation), *std::move(opened)};
  }
}

// Returns the served part of each of the manifest's shards that need not be loaded again, null for the others.
std::vector<const Part*> SharedParts(const LoadRequest& request, const collection::Manifest& manifest,
                                     const DeviceSet& devices) {
  std::vector<const Part*> shared(manifest.shards.size());
  if (!request.share_parts || request.served == nullptr) return shared;
  const collection::Manifest& served = request.served->manifest();
  const bool same_kind = served.dim == manifest.dim && served.storage == manifest.storage &&
                         served.rotation_seed == manifest.rotation_seed && served.id_type == manifest.id_type;
  if (!same_kind) return shared;
  absl::flat_hash_map<std::string, size_t> by_checksum;
  for (size_t idx = 0; idx < served.shards.size(); ++idx) by_checksum[served.shards[idx].checksum] = idx;
  for (size_t idx = 0; idx < manifest.shards.size(); ++idx) {
    const auto found = by_checksum.find(manifest.shards[idx].checksum);
    if (found == by_checksum.end() || served.shards[found->second].file != manifest.shards[idx].file) continue;
    const Part& part = request.served->part(found->second);
    const bool is_whole = std::all_of(part.replicas.begin(), part.replicas.end(),
                                      [&](const Replica& replica) { return devices.alive(replica.device); });
    if (is_whole && part.shard->Check().ok()) shared[idx] = &part;
  }
  return shared;
}

// What is to be loaded where some parts are shared, and how: as those are.
struct Remainder {
  collection::Manifest manifest;  // with the shards alone that no part is shared of
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

// Puts shared and loaded parts in the manifest's order, and numbers their documents.
std::vector<Part> Merge(const std::vector<const Part*>& shared, std::vector<Part> loaded) {
  std::vector<Part> parts;
  parts.reserve(shared.size());
  size_t next_loaded = 0;
  uint64_t first_ordinal = 0;
  for (const Part* const part : shared) {
    parts.push_back(part != nullptr ? *part : std::move(loaded[next_loaded++]));
    parts.back().first_ordinal = first_ordinal;
    first_ordinal += static_cast<uint64_t>(parts.back().num_documents());
  }
  return parts;
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
  absl::StatusOr<Reserved> reserved = Reserve(remainder.request, remainder.manifest, devices, options, ledger, files);
  if (!reserved.ok()) return reserved.status();
  if (absl::Status status = CheckSizes(request, remainder.manifest); !status.ok()) return status;
  absl::StatusOr<std::vector<Part>> loaded = PartLoader(request, remainder.manifest, reserved->plan.placement, devices,
                                                        options, reserved->reservation.get(), reserved->files.get())
                                                 .Run();
  if (!loaded.ok()) return loaded.status();
  std::vector<Part> parts = Merge(shared, *std::move(loaded));

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
                                                                            .tombstones = request.tombstones});
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
    // Each attempt has one device less, so that the loop ends.
    if (!absl::IsUnavailable(loaded.status()) || devices->num_alive() == num_alive || !devices->Health().ok() ||
        Stopped(request.stop)) {
      return loaded;
    }
    log::Write(spdlog::level::warn, "load_begins_again",
               {{"name", request.name}, {"reason", loaded.status().ToString()}});
  }
}

}  // namespace maxsim::store
