#include "server/store/part_loader.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/saturating.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "collection/codes/shard_codes.h"
#include "collection/fields/shard_fields.h"
#include "collection/shard.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"
#include "server/observability/log_event.h"
#include "server/store/collection/part_fields.h"
#include "server/store/collection/slot_masks.h"
#include "server/store/memory/residency.h"
#include "server/store/memory_plan.h"

namespace maxsim::store {
namespace {

// Returns an error if a row's centroid is not in the codebook.
absl::Status CheckCentroids(const collection::Shard& shard, const StopSignal* stop) {
  const DocumentsView& documents = shard.documents();
  const int64_t row_bytes = RowBytes(documents.type, documents.dim);
  const int64_t block_rows = static_cast<int64_t>(kStopBlockBytes) / row_bytes;
  for (int64_t begin = 0; begin < documents.num_tokens(); begin += block_rows) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    const char* const rows = static_cast<const char*>(documents.tokens) + begin * row_bytes;
    const int64_t count = std::min(block_rows, documents.num_tokens() - begin);
    const std::optional<int64_t> bad =
        FindUnusableRow(documents.type, documents.dim, rows, count, documents.codebook.num_centroids);
    if (!bad.has_value()) continue;
    const int64_t token = begin + *bad;
    const int64_t* const end = documents.offsets + documents.num_documents + 1;
    const int64_t document = std::upper_bound(documents.offsets, end, token) - documents.offsets - 1;
    return absl::DataLossError(Cat(shard.path(), ": document ", document, ", token ",
                                   token - documents.offsets[document], " has centroid ",
                                   ResidualCentroid(documents.type, documents.dim, rows + *bad * row_bytes), " of ",
                                   documents.codebook.num_centroids));
  }
  return absl::OkStatus();
}

// Returns an error if a value is an infinity or NaN. No backend can score such a value: every ranking with this
// document would be meaningless.
absl::Status CheckValues(const collection::Shard& shard, const StopSignal* stop) {
  const DocumentsView& documents = shard.documents();
  if (IsResidual(documents.type)) return CheckCentroids(shard, stop);
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

// Returns the descriptors and mappings that a loaded shard keeps. A shard that is scored from its file keeps the file
// open, to detect writes to it. A mapped file takes three mappings: the sections before the tokens, the tokens, and the
// sections after them. The mapping of the tokens stays counted even after a GPU has copied the tokens. A file that is
// read whole takes one mapping.
FileDemand FilesOf(Residency tier, bool is_gpu) {
  const bool is_mapped = is_gpu || tier == Residency::kDisk;
  return {.descriptors = tier == Residency::kDisk ? 1 : 0, .mappings = is_mapped ? 3 : 1};
}

// Returns the descriptors and mappings of a shard's code files while they are open. On GPUs the files are closed
// after they are copied.
FileDemand CodeFilesOf(Residency tier, bool is_gpu, int planes) {
  if (planes == 0) return {};
  const auto num_files = static_cast<int64_t>(collection::NumCodeFiles(planes));
  const bool is_mapped = is_gpu || tier == Residency::kDisk;
  return {.descriptors = is_mapped ? num_files : 0, .mappings = num_files * (is_mapped ? 3 : 1)};
}

size_t NumThreads(const StoreOptions& options, size_t num_shards) {
  return std::min<size_t>(static_cast<size_t>(std::max(options.load_threads, 1)), num_shards);
}

// Does one call of LoadParts.
class PartLoader {
 public:
  PartLoader(const PartLoadRequest& request, DeviceSet* devices, const StoreOptions& options, Reservation* memory,
             FileLedger::Reservation* files)
      : stop_(request.stop),
        folder_(*request.folder),
        manifest_(*request.manifest),
        placement_(*request.placement),
        code_planes_(request.code_planes),
        devices_(*devices),
        options_(options),
        memory_(memory),
        files_(files),
        parts_(manifest_.shards.size()) {}

  absl::StatusOr<std::vector<Part>> Run() {
    const size_t num_threads = NumThreads(options_, parts_.size());
    std::vector<std::thread> threads;
    // The calling thread loads shards, too. So the load succeeds even if the system cannot start a thread.
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
    if (absl::Status status = StopStatus(stop_); !status.ok()) return status;
    return std::move(parts_);
  }

 private:
  void Work() {
    while (!failed_.load(std::memory_order_relaxed) && !Stopped(stop_)) {
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
    MemoryDemand demand = DemandOf(placement, devices_.size());
    demand.scan_bytes.resize(devices_.size());
    for (const uint32_t device : placement.devices) {
      demand.scan_bytes[device] = ScanNeed(devices_, manifest_, entry, code_planes_);
    }
    if (devices_.is_gpu()) demand.host_bytes = SaturatingAdd(demand.host_bytes, FieldIndexBytes(manifest_, entry));
    const std::shared_ptr<Reservation> reservation = memory_->Split(demand);
    // LoadFields closes its file before the shard's file is opened, because a thread has reserved descriptors for one
    // file at a time (FilesToLoad).
    if (absl::Status status = LoadFields(entry, part); !status.ok()) return status;
    const Residency tier = placement.tier.tier;
    // Only the CPU backend on tier kHost needs the whole file in memory. GPUs copy the tokens out of the mapping,
    // except on tier kDisk. The other sections are copied in any case.
    const bool reads_whole_file = !devices_.is_gpu() && tier == Residency::kHost;
    absl::StatusOr<std::shared_ptr<collection::Shard>> shard = collection::Shard::Open(
        folder_, manifest_, entry, reads_whole_file ? collection::Access::kCopied : collection::Access::kMapped,
        options_.verify_checksums, stop_);
    if (!shard.ok()) return shard.status();
    // Check the values even if the file's checksum was checked. A checksum proves that the file is as it was written,
    // but not that its values can be scored. Later code does not handle NaN.
    if (absl::Status status = CheckValues(**shard, stop_); !status.ok()) return status;
    for (const uint32_t device : placement.devices) {
      if (absl::Status status = StopStatus(stop_); !status.ok()) return status;
      absl::StatusOr<std::unique_ptr<Documents>> documents =
          devices_.backend(device).Load((*shard)->documents(), TierOf(tier), *shard);
      if (absl::IsUnavailable(documents.status())) devices_.MarkLost(device, documents.status());
      if (!documents.ok()) {
        return absl::Status(documents.status().code(), Cat((*shard)->path(), ": ", documents.status().message()));
      }
      part->replicas.push_back({device, *std::move(documents)});
    }
    if (absl::Status status = LoadCodes(entry, *shard, reads_whole_file, part); !status.ok()) return status;
    // Check that the file did not change while its values were checked and copied.
    if (absl::Status status = (*shard)->Check(); !status.ok()) return status;
    if (devices_.is_gpu() && tier != Residency::kDisk) (*shard)->ReleaseTokens();
    reservation->Commit(demand);
    files_->Commit(FilesOf(tier, devices_.is_gpu()));
    if (!devices_.is_gpu()) files_->Commit(CodeFilesOf(tier, /*is_gpu=*/false, code_planes_));
    part->shard = *std::move(shard);
    part->tier = tier;
    part->reservation = reservation;
    part->view = part->shard->documents();
    part->slot_masks = std::make_shared<SlotMasks>();
    return absl::OkStatus();
  }

  // Reads the file of the shard's fields, builds the index of the fields, and frees the copy of the file.
  absl::Status LoadFields(const collection::ShardEntry& entry, Part* part) {
    if (manifest_.fields.empty()) return absl::OkStatus();
    const absl::StatusOr<std::unique_ptr<collection::ShardFields>> fields =
        collection::ShardFields::Open(folder_, manifest_, entry, options_.verify_checksums, stop_);
    if (!fields.ok()) return fields.status();
    part->fields = std::make_shared<const PartFields>(manifest_.fields, (*fields)->columns(), entry.num_documents);
    return absl::OkStatus();
  }

  // Gives each replica the shard's codes.
  absl::Status LoadCodes(const collection::ShardEntry& entry, const std::shared_ptr<collection::Shard>& shard,
                         bool reads_whole_files, Part* part) {
    if (code_planes_ == 0) return absl::OkStatus();
    absl::StatusOr<std::shared_ptr<collection::ShardCodes>> codes =
        collection::ShardCodes::Open(folder_, manifest_, entry, code_planes_,
                                     reads_whole_files ? collection::Access::kCopied : collection::Access::kMapped,
                                     options_.verify_checksums, stop_);
    if (!codes.ok()) return codes.status();
    const CodesView view = (*codes)->view(shard->documents());
    // The codes use the shard's offsets.
    const auto owner =
        std::make_shared<const std::pair<std::shared_ptr<collection::Shard>, std::shared_ptr<collection::ShardCodes>>>(
            shard, *codes);
    for (Replica& replica : part->replicas) {
      if (absl::Status status = StopStatus(stop_); !status.ok()) return status;
      absl::StatusOr<std::unique_ptr<LoadedCodes>> loaded =
          devices_.backend(replica.device).LoadCodes(view, code_planes_, owner);
      if (absl::IsUnavailable(loaded.status())) devices_.MarkLost(replica.device, loaded.status());
      if (!loaded.ok()) {
        return absl::Status(loaded.status().code(),
                            Cat("codes of ", shard->path(), ": ", std::string(loaded.status().message())));
      }
      replica.codes = *std::move(loaded);
    }
    if (absl::Status status = (*codes)->Check(); !status.ok()) return status;
    if (!devices_.is_gpu()) part->codes = *std::move(codes);
    return absl::OkStatus();
  }

  const StopSignal* const stop_;
  const Folder& folder_;
  const collection::Manifest& manifest_;
  const Placement& placement_;
  const int code_planes_;
  DeviceSet& devices_;
  const StoreOptions& options_;
  Reservation* const memory_;
  FileLedger::Reservation* const files_;
  std::vector<Part> parts_;  // An element is written by the one thread that took its index from next_.
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

FileDemand FilesToLoad(const Placement& placement, int code_planes, bool is_gpu, const StoreOptions& options) {
  FileDemand demand;
  const auto add = [&demand](const FileDemand& one, int64_t times) {
    demand.descriptors += one.descriptors * times;
    demand.mappings += one.mappings * times;
  };
  for (const ShardPlacement& shard : placement.shards) {
    add(FilesOf(shard.tier.tier, is_gpu), 1);
    if (!is_gpu) add(CodeFilesOf(shard.tier.tier, is_gpu, code_planes), 1);
  }
  const auto num_threads = static_cast<int64_t>(NumThreads(options, placement.shards.size()));
  demand.descriptors += num_threads;
  if (is_gpu) add(CodeFilesOf(Residency::kGpu, is_gpu, code_planes), num_threads);
  return demand;
}

absl::StatusOr<std::vector<Part>> LoadParts(const PartLoadRequest& request, DeviceSet* devices,
                                            const StoreOptions& options, Reservation* memory,
                                            FileLedger::Reservation* files) {
  return PartLoader(request, devices, options, memory, files).Run();
}

}  // namespace maxsim::store
