#include "server/store/memory/memory_ledger.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/saturating.h"
#include "base/text.h"
#include "base/units.h"

namespace maxsim::store {

// The bytes that all reservations together hold of one memory: a device's or the host's.
struct Account {
  uint64_t held_bytes = 0;
  uint64_t pending_bytes = 0;
  std::multiset<uint64_t> scan_claims = {};  // MemoryDemand::scan_bytes of each reservation
};

namespace {

uint64_t SubtractOrZero(uint64_t from, uint64_t amount) { return from > amount ? from - amount : 0; }

MemoryLedger::Availability ComputeAvailability(const Account& account, const MemoryBudget& budget,
                                               const absl::StatusOr<uint64_t>& free_bytes,
                                               uint64_t allocated_scan_bytes = 0) {
  // Lanes (scoring threads) keep the memory that they have allocated for scans, even after the collection that needed
  // it was unloaded. So the bytes for scans are the largest claim or the allocated bytes, whichever is more.
  const uint64_t claimed_scan_bytes = account.scan_claims.empty() ? 0 : *account.scan_claims.rbegin();
  MemoryLedger::Availability result;
  result.budget_bytes = budget.budget_bytes;
  result.scan_bytes = std::max(claimed_scan_bytes, allocated_scan_bytes);
  result.held_bytes = account.held_bytes + result.scan_bytes;
  result.pending_bytes = account.pending_bytes + (result.scan_bytes - allocated_scan_bytes);
  result.reserve_bytes = budget.budget_bytes == 0 ? budget.reserve_bytes : 0;
  result.status = free_bytes.status();
  if (!free_bytes.ok()) return result;
  result.free_bytes = *free_bytes;
  // Memory that other loads have reserved and not yet allocated is still reported as free, so subtract it.
  result.available_bytes =
      SubtractOrZero(SubtractOrZero(result.free_bytes, result.pending_bytes), result.reserve_bytes);
  if (result.budget_bytes != 0) {
    result.available_bytes = std::min(result.available_bytes, SubtractOrZero(result.budget_bytes, result.held_bytes));
  }
  return result;
}

// `bytes` includes `scan_bytes`, which are for scans of codes.
absl::Status CheckFits(uint64_t bytes, uint64_t scan_bytes, const MemoryLedger::Availability& now,
                       std::string_view purpose, std::string_view memory) {
  if (bytes == 0) return absl::OkStatus();
  if (!now.status.ok()) return now.status;
  if (bytes <= now.available_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      Cat(purpose, " needs ", FormatBytesExactly(bytes), " of ", memory,
          scan_bytes == 0 ? std::string() : Cat(" (of that for scans of codes ", FormatBytesExactly(scan_bytes), ")"),
          " but only ", FormatBytesExactly(now.available_bytes), " can be taken: budget ",
          now.budget_bytes == 0 ? std::string("none") : FormatBytesExactly(now.budget_bytes), ", held by collections ",
          FormatBytesExactly(now.held_bytes), ", of that still loading ", FormatBytesExactly(now.pending_bytes),
          now.scan_bytes == 0 ? std::string() : Cat(", for scans of codes ", FormatBytesExactly(now.scan_bytes)),
          ", free ", FormatBytesExactly(now.free_bytes), ", kept free ", FormatBytesExactly(now.reserve_bytes)));
}

}  // namespace

uint64_t MemoryDemand::total() const {
  uint64_t bytes = host_bytes;
  for (const uint64_t of_device : device_bytes) bytes = SaturatingAdd(bytes, of_device);
  return bytes;
}

uint64_t MemoryLedger::Memory::Needed(const MemoryDemand& demand, size_t device) const {
  const uint64_t scan_bytes = device < demand.scan_bytes.size() ? demand.scan_bytes[device] : 0;
  return SaturatingAdd(demand.device_bytes[device], SubtractOrZero(scan_bytes, devices[device].scan_bytes));
}

struct MemoryLedger::State {
  Mutex mutex;
  std::vector<Account> devices ABSL_GUARDED_BY(mutex);
  Account host ABSL_GUARDED_BY(mutex);
};

class MemoryLedger::HeldReservation final : public Reservation {
 public:
  // The caller must hold books->mutex, and must have added `demand` to `books` except for its scan_bytes, which the
  // constructor adds.
  HeldReservation(std::shared_ptr<State> books, const MemoryDemand& demand)
      : state_(std::move(books)), held_(demand), pending_(demand) {
    state_->mutex.AssertHeld();
    for (size_t device = 0; device < held_.scan_bytes.size(); ++device) {
      state_->devices[device].scan_claims.insert(held_.scan_bytes[device]);
    }
  }

  ~HeldReservation() override {
    const MutexLock lock(&state_->mutex);
    for (size_t device = 0; device < held_.scan_bytes.size(); ++device) {
      std::multiset<uint64_t>& claims = state_->devices[device].scan_claims;
      claims.erase(claims.find(held_.scan_bytes[device]));
    }
    for (size_t device = 0; device < held_.device_bytes.size(); ++device) {
      state_->devices[device].held_bytes -= held_.device_bytes[device];
      state_->devices[device].pending_bytes -= pending_.device_bytes[device];
    }
    state_->host.held_bytes -= held_.host_bytes;
    state_->host.pending_bytes -= pending_.host_bytes;
  }

  std::shared_ptr<Reservation> Split(const MemoryDemand& part) override {
    const MutexLock lock(&state_->mutex);
    for (size_t device = 0; device < part.device_bytes.size(); ++device) {
      held_.device_bytes[device] -= part.device_bytes[device];
      pending_.device_bytes[device] -= part.device_bytes[device];
    }
    held_.host_bytes -= part.host_bytes;
    pending_.host_bytes -= part.host_bytes;
    return std::make_shared<HeldReservation>(state_, part);
  }

  void Commit(const MemoryDemand& allocated) override {
    const MutexLock lock(&state_->mutex);
    for (size_t device = 0; device < std::min(allocated.device_bytes.size(), pending_.device_bytes.size()); ++device) {
      MarkAllocated(allocated.device_bytes[device], pending_.device_bytes[device], state_->devices[device]);
    }
    MarkAllocated(allocated.host_bytes, pending_.host_bytes, state_->host);
  }

 private:
  static void MarkAllocated(uint64_t allocated, uint64_t& pending, Account& account) {
    const uint64_t committed = std::min(allocated, pending);
    pending -= committed;
    account.pending_bytes -= committed;
  }

  const std::shared_ptr<State> state_;
  MemoryDemand held_ ABSL_GUARDED_BY(state_->mutex);
  MemoryDemand pending_ ABSL_GUARDED_BY(state_->mutex);
};

MemoryLedger::MemoryLedger(const DeviceSet* devices, MemoryBudget device, MemoryBudget host,
                           std::function<uint64_t()> free_host_bytes)
    : devices_(devices),
      device_budget_(device),
      host_budget_(host),
      free_host_bytes_(std::move(free_host_bytes)),
      state_(std::make_shared<State>()) {
  state_->devices.resize(devices->size());
}

MemoryLedger::~MemoryLedger() = default;

MemoryLedger::Memory MemoryLedger::AvailableLocked() const {
  state_->mutex.AssertHeld();
  Memory memory;
  for (size_t device = 0; device < devices_->size(); ++device) {
    // Read the scan bytes before the free bytes. If a scoring thread allocates memory in between, that memory counts
    // twice rather than not at all.
    const uint64_t scan_bytes = devices_->scan_bytes(device);
    const absl::Status lost = devices_->StatusOf(device);
    const absl::StatusOr<uint64_t> free_bytes =
        lost.ok() ? absl::StatusOr<uint64_t>(devices_->backend(device).FreeBytes()) : lost;
    memory.devices.push_back(ComputeAvailability(state_->devices[device], device_budget_, free_bytes, scan_bytes));
  }
  memory.host =
      ComputeAvailability(state_->host, host_budget_,
                          free_host_bytes_ == nullptr ? std::numeric_limits<uint64_t>::max() : free_host_bytes_());
  return memory;
}

MemoryLedger::Memory MemoryLedger::Available() const {
  const MutexLock lock(&state_->mutex);
  return AvailableLocked();
}

absl::StatusOr<std::shared_ptr<Reservation>> MemoryLedger::Reserve(const MemoryDemand& demand,
                                                                   std::string_view purpose) {
  const MutexLock lock(&state_->mutex);
  const Memory now = AvailableLocked();
  for (size_t device = 0; device < demand.device_bytes.size(); ++device) {
    const std::string kind = Cat(devices_->backend(device).info().name, " memory");
    const uint64_t bytes = now.Needed(demand, device);
    const absl::Status fits =
        CheckFits(bytes, bytes - demand.device_bytes[device], now.devices[device], purpose,
                  devices_->size() == 1 ? kind : Cat(kind, " of device ", devices_->number(device)));
    if (!fits.ok()) return fits;
  }
  const absl::Status fits = CheckFits(demand.host_bytes, /*scan_bytes=*/0, now.host, purpose, "pinned host memory");
  if (!fits.ok()) return fits;
  for (size_t device = 0; device < demand.device_bytes.size(); ++device) {
    state_->devices[device].held_bytes += demand.device_bytes[device];
    state_->devices[device].pending_bytes += demand.device_bytes[device];
  }
  state_->host.held_bytes += demand.host_bytes;
  state_->host.pending_bytes += demand.host_bytes;
  return std::static_pointer_cast<Reservation>(std::make_shared<HeldReservation>(state_, demand));
}

}  // namespace maxsim::store
