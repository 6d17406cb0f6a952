// Accounts for the memory of the devices and for pinned host memory. A collection reserves its memory here before it
// loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/memory/device_set.h"

namespace maxsim::store {

// An amount of memory on each device and, with GPUs, an amount of pinned host memory.
struct MemoryDemand {
  std::vector<uint64_t> device_bytes;  // [devices]
  uint64_t host_bytes = 0;
  // How much memory the lanes (scoring threads) need on each device for scans of codes (DeviceSet::ScanBytesNeeded).
  // All demands share this memory: the ledger reserves the largest scan_bytes of all demands, once. [devices], or empty
  // for none.
  std::vector<uint64_t> scan_bytes = {};

  uint64_t total() const;  // saturating; without scan_bytes
};

// Reserves memory until this object is destroyed. May outlive the ledger.
class Reservation {
 public:
  virtual ~Reservation() = default;
  // Records that `allocated` of the reserved memory is now allocated. The ledger then no longer subtracts it from the
  // free memory that the device or the system reports. Do not record memory for scans here: the DeviceSet counts it.
  virtual void Commit(const MemoryDemand& allocated) = 0;
  // Moves `part`, which must not be committed yet, into a new reservation, which can be destroyed separately. Both
  // reservations hold the memory for scans, which is shared.
  virtual std::shared_ptr<Reservation> Split(const MemoryDemand& part) = 0;
};

// How much of one memory (a device's or the host's) collections may take.
struct MemoryBudget {
  uint64_t budget_bytes = 0;   // for all reservations together; 0 for no limit other than the free memory
  uint64_t reserve_bytes = 0;  // left free if there is no budget
};

// The class is thread-safe. A reservation takes everything it needs on all devices and the host, or nothing. So two
// loads at the same time cannot both take the last free bytes, and cannot block each other by each taking half of its
// memory.
class MemoryLedger {
 public:
  struct Availability {
    uint64_t available_bytes = 0;  // for a new reservation
    uint64_t budget_bytes = 0;     // as configured; 0 for none
    uint64_t held_bytes = 0;       // by existing reservations
    uint64_t pending_bytes = 0;    // reserved and not allocated yet
    uint64_t free_bytes = 0;       // as the device or the system reports
    uint64_t reserve_bytes = 0;    // kept free; 0 with a configured budget
    uint64_t scan_bytes = 0;       // the part of held_bytes that is for scans of codes
    absl::Status status;           // Not OK if the free memory is unknown; available_bytes is then 0.
  };
  struct Memory {
    std::vector<Availability> devices;
    Availability host;

    // Returns how much of a device's available memory a demand would take: its device_bytes, and the bytes by which its
    // scan_bytes exceed the memory already held for scans. Overflow yields the largest value.
    uint64_t Needed(const MemoryDemand& demand, size_t device) const;
  };

  // With a budget, all reservations together stay within the budget and within the free memory. Without one, they stay
  // within the free memory minus the reserve. `device` is the budget of each device. `devices` must outlive the ledger.
  // `free_host_bytes` returns how much of the host's memory is free, and may be called from any thread; null means no
  // limit.
  MemoryLedger(const DeviceSet* devices, MemoryBudget device, MemoryBudget host,
               std::function<uint64_t()> free_host_bytes);
  ~MemoryLedger();

  Memory Available() const;

  // Reserves the demand. Returns RESOURCE_EXHAUSTED with the numbers of the first memory that is too small for it (the
  // message begins with `purpose`), or the status of a lost device if the demand includes memory on it.
  absl::StatusOr<std::shared_ptr<Reservation>> Reserve(const MemoryDemand& demand, std::string_view purpose);

 private:
  struct State;
  class HeldReservation;
  Memory AvailableLocked() const;  // The caller holds state_->mutex.

  const DeviceSet* const devices_;
  const MemoryBudget device_budget_;
  const MemoryBudget host_budget_;
  const std::function<uint64_t()> free_host_bytes_;
  const std::shared_ptr<State> state_;
};

}  // namespace maxsim::store
