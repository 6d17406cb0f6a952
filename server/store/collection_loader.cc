#include "server/store/collection_loader.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/log_event.h"
#include "server/shard/stop.h"
#include "server/shard/text.h"

namespace maxsim::store {
namespace {

constexpr size_t kLoggedShards = 64;  // lines of the memory plan in the log; CollectionStore::MemoryPlan shows all

// Finds the first value no backend could score; an Infinity or NaN in a document would make every ranking it enters
// meaningless.
absl::Status CheckValues(const shard::Shard& shard) {
  const DocumentsView& documents = shard.documents();
  const auto count = static_cast<size_t>(documents.num_tokens()) * static_cast<size_t>(documents.dim);
  const std::optional<size_t> bad = FindUnusableElement(documents.type, documents.tokens, count);
  if (!bad.has_value()) return absl::OkStatus();
  const auto token = static_cast<int64_t>(*bad / static_cast<size_t>(documents.dim));
  const int64_t* end = documents.offsets + documents.num_documents + 1;
  const int64_t document = std::upper_bound(documents.offsets, end, token) - documents.offsets - 1;
  return absl::DataLossError(shard::Cat(
      shard.path(), ": document ", document, ", token ", token - documents.offsets[document], ", column ",
      *bad % static_cast<size_t>(documents.dim),
      documents.type == ScalarType::kI8 ? std::string(" is -128, which is not in -127 .. 127")
                                        : shard::Cat(" is not finite, or beyond a magnitude of ", kMaxAbsValue)));
}

Tier TierOf(Residency residency) {
  switch (residency) {
    case Residency::kHost:
      return Tier::kHost;
    case Residency::kDisk:
      return Tier::kDisk;
    default:
      return Tier::kDevice;
  }
}

// Loads the shards of one collection side by side.
class PartLoader {
 public:
  PartLoader(const LoadRequest& request, const shard::Manifest& manifest, Residency residency, Backend* backend,
             const StoreOptions& options, Reservation* reservation)
      : request_(request),
        manifest_(manifest),
        residency_(residency),
        backend_(backend),
        options_(options),
        reservation_(reservation),
        parts_(manifest.shards.size()) {}

  absl::StatusOr<std::vector<Collection::Part>> Run() {
    const auto num_threads = std::min<size_t>(static_cast<size_t>(std::max(options_.load_threads, 1)), parts_.size());
    std::vector<std::thread> threads;
    // The calling thread is one of them, so that a machine out of threads still loads.
    for (size_t idx = 1; idx < num_threads; ++idx) {
      try {
        threads.emplace_back([this] { Work(); });
      } catch (const std::system_error& error) {
        log::Write(spdlog::level::warn, "load_threads",
                   {{"requested", absl::StrCat(num_threads)},
                    {"started", absl::StrCat(threads.size() + 1)},
                    {"error", error.what()}});
        break;
      }
    }
    Work();
    for (std::thread& thread : threads) thread.join();
    if (!error_.ok()) return error_;
    if (shard::Stopped(request_.stop)) return shard::StoppedError();
    uint64_t first_ordinal = 0;
    for (Collection::Part& part : parts_) {
      part.first_ordinal = first_ordinal;
      first_ordinal += static_cast<uint64_t>(part.shard->documents().num_documents);
    }
    return std::move(parts_);
  }

 private:
  void Work() {
    while (!failed_.load(std::memory_order_relaxed) && !shard::Stopped(request_.stop)) {
      const size_t idx = next_.fetch_add(1, std::memory_order_relaxed);
      if (idx >= parts_.size()) return;
      const absl::Status status = LoadPart(manifest_.shards[idx], &parts_[idx]);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      if (error_.ok()) error_ = status;
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  absl::Status LoadPart(const shard::ShardEntry& entry, Collection::Part* part) {
    // The GPU copies the tokens out of the mapping. Everything else is copied in any case.
    const shard::Access access = residency_ == Residency::kHost ? shard::Access::kCopied : shard::Access::kMapped;
    absl::StatusOr<std::shared_ptr<shard::Shard>> shard =
        shard::Shard::Open(request_.path, manifest_, entry, access, options_.verify_checksums, request_.stop);
    if (!shard.ok()) return shard.status();
    // Whether or not the file is hashed: a checksum says that a file is what its writer wrote, not that it can be
    // scored, and nobody behind this point copes with NaN.
    if (absl::Status status = CheckValues(**shard); !status.ok()) return status;
    if (shard::Stopped(request_.stop)) return shard::StoppedError();
    absl::StatusOr<std::unique_ptr<Documents>> documents = backend_->Load((*shard)->documents(), TierOf(residency_), *shard);
    if (!documents.ok()) {
      return absl::Status(documents.status().code(), shard::Cat((*shard)->path(), ": ", documents.status().message()));
    }
    // What was checked and copied was what the file still holds, or nobody will know.
    if (absl::Status status = (*shard)->Check(); !status.ok()) return status;
    if (residency_ == Residency::kGpu) (*shard)->ReleaseTokens();
    reservation_->Commit(ShardBytesNeeded(*backend_, manifest_, entry, residency_));
    part->shard = *std::move(shard);
    part->documents = *std::move(documents);
    return absl::OkStatus();
  }

  const LoadRequest& request_;
  const shard::Manifest& manifest_;
  const Residency residency_;
  Backend* const backend_;
  const StoreOptions& options_;
  Reservation* const reservation_;
  std::vector<Collection::Part> parts_;  // each element is written by the one thread that drew its index
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  absl::Status error_;  // guarded by mutex_ until the threads are joined
};

std::string Purpose(const LoadRequest& request, const shard::Manifest& manifest) {
  std::string text = shard::Cat("generation ", manifest.generation, " of collection ", request.name);
  if (request.served != nullptr) {
    text += shard::Cat(" (a reload holds both generations until the swap; generation ",
                       request.served->manifest().generation, " holds ", FormatBytes(request.served->resident_bytes()),
                       ")");
  }
  return text;
}

struct Placement {
  Residency residency = Residency::kHost;
  std::shared_ptr<Reservation> reservation;
};

absl::StatusOr<Placement> Reserve(const LoadRequest& request, const shard::Manifest& manifest, Backend* backend,
                                  const StoreOptions& options, MemoryLedger* ledger) {
  const absl::StatusOr<MemoryLedger::Availability> memory = ledger->Available();
  if (!memory.ok()) return memory.status();
  absl::StatusOr<Residency> residency =
      PlaceCollection(*backend, manifest, request.residency, options.max_dim, memory->available_bytes);
  if (!residency.ok()) return residency.status();
  const std::string purpose = Purpose(request, manifest);
  absl::StatusOr<std::shared_ptr<Reservation>> reservation =
      ledger->Reserve(BytesNeeded(*backend, manifest, *residency), purpose);
  if (!reservation.ok() && request.residency == Residency::kAuto && *residency == Residency::kHost) {
    // Another load took the memory between the look and the grip.
    residency = Residency::kDisk;
    reservation = ledger->Reserve(BytesNeeded(*backend, manifest, *residency), purpose);
  }
  const uint64_t needed_bytes = BytesNeeded(*backend, manifest, *residency);
  log::WriteTable(spdlog::level::info, "memory_plan",
                  {{"collection", request.name},
                   {"residency", std::string(Name(*residency))},
                   {"needed_bytes", absl::StrCat(needed_bytes)},
                   {"available_bytes", absl::StrCat(memory->available_bytes)},
                   {"fits", needed_bytes <= memory->available_bytes ? "true" : "false"}},
                  FormatMemoryPlan(*backend, manifest, *residency, *memory, kLoggedShards));
  if (!reservation.ok()) return reservation.status();
  if (request.residency == Residency::kAuto && *residency == Residency::kDisk) {
    const bool held = request.served != nullptr && request.served->residency() == Residency::kHost;
    log::Write(spdlog::level::warn, "collection_on_disk",
               {{"name", request.name},
                {"reason", held ? "host memory does not hold both generations: the new one is read from its files"
                                : "host memory does not hold it: it is read from its files, which is slower"},
                {"hint", "residency host refuses it instead"}});
  }
  return Placement{*residency, *std::move(reservation)};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Collection>> LoadCollection(const LoadRequest& request, shard::Manifest manifest,
                                                                 Backend* backend, const StoreOptions& options,
                                                                 MemoryLedger* ledger) {
  const absl::Time start = absl::Now();
  if (shard::Stopped(request.stop)) return shard::StoppedError();
  absl::StatusOr<Placement> placement = Reserve(request, manifest, backend, options, ledger);
  if (!placement.ok()) return placement.status();
  absl::StatusOr<std::vector<Collection::Part>> parts =
      PartLoader(request, manifest, placement->residency, backend, options, placement->reservation.get()).Run();
  if (!parts.ok()) return parts.status();

  std::vector<std::shared_ptr<const shard::Shard>> shards;
  shards.reserve(parts->size());
  for (const Collection::Part& part : *parts) shards.push_back(part.shard);
  absl::StatusOr<IdIndex> index = IdIndex::Build(shards);
  if (!index.ok()) return index.status();

  auto collection = std::make_shared<const Collection>(request.name, request.path, std::move(manifest),
                                                       placement->residency, *std::move(parts), *std::move(index),
                                                       absl::Now(), std::move(placement->reservation));
  log::Write(spdlog::level::info, "collection_loaded",
             {{"name", request.name},
              {"generation", absl::StrCat(collection->manifest().generation)},
              {"documents", absl::StrCat(collection->num_documents())},
              {"tokens", absl::StrCat(collection->num_tokens())},
              {"shards", absl::StrCat(collection->parts().size())},
              {"residency", std::string(Name(collection->residency()))},
              {"resident_bytes", absl::StrCat(collection->resident_bytes())},
              {"index_bytes", absl::StrCat(collection->index_bytes())},
              {"seconds", absl::StrFormat("%.3f", absl::ToDoubleSeconds(absl::Now() - start))}});
  return collection;
}

}  // namespace maxsim::store
