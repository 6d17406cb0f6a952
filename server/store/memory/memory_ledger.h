// Accounts for the devices' memory, and for the host memory that serves them: collections reserve what they need before
// they load.
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

// Holds an amount of memory of each device and, for GPUs, of pinned host memory beside that.
struct MemoryDemand {
  std::vector<uint64_t> device_bytes;  // [devices]
  uint64_t host_bytes = 0;
  // How much of each device the lanes must be able to take for scans of codes (DeviceSet::ScanBytesNeeded). All demands
  // share it: the largest of them counts, and only once. [devices], or empty for none.
  std::vector<uint64_t> scan_bytes = {};

  uint64_t total() const;  // saturating; without scan_bytes
};

// Memory that is reserved, until this is destroyed. May outlive the ledger.
class Reservation {
 public:
  virtual ~Reservation() = default;
  // Records that `allocated` of it is allocated now, so that what is reported as free shows it already. Memory that
  // lanes allocate for scans is not recorded here: the DeviceSet knows it.
  virtual void Commit(const MemoryDemand& allocated) = 0;
  // Moves `part`, which must not be committed yet, out of this reservation into a new one that is freed on its own.
  // Memory for scans, which is shared, is held by both.
  virtual std::shared_ptr<Reservation> Split(const MemoryDemand& part) = 0;
};

// How much collections may take of one memory.
struct MemoryBudget {
  uint64_t budget_bytes = 0;   // for all reservations together; 0: no bound but what is free
  uint64_t reserve_bytes = 0;  // left free where there is no budget
};

// The class is thread-safe. A reservation is atomic over all memories: two loads at the same time can neither both
// take the last free bytes nor take half each of what both need.
class MemoryLedger {
 public:
  struct Availability {
    uint64_t available_bytes = 0;  // what a reservation may take
    uint64_t budget_bytes = 0;     // configured; 0: none
    uint64_t held_bytes = 0;       // by reservations alive
    uint64_t pending_bytes = 0;    // reserved and not allocated yet
    uint64_t free_bytes = 0;       // as the device or the system reports
    uint64_t reserve_bytes = 0;    // kept free; 0 with a configured budget
    uint64_t scan_bytes = 0;       // of held_bytes: for scans of codes
    absl::Status status;           // Not OK when what is free is unknown: then nothing is available.
  };
  struct Memory {
    std::vector<Availability> devices;
    Availability host;

    // Returns how much a demand would take of a device: its own bytes, and the memory for scans that it needs beyond
    // what is held already. Saturating.
    uint64_t Needed(const MemoryDemand& demand, size_t device) const;
  };

  // With a budget, reservations together stay below it and below what is free; without one, below what is free less the
  // reserve. Each device has the budget `device`. `devices` must outlive the ledger. `free_host_bytes` returns how much
  // of the host's memory is free, and is called from any thread; null means no bound.
  MemoryLedger(const DeviceSet* devices, MemoryBudget device, MemoryBudget host,
               std::function<uint64_t()> free_host_bytes);
  ~MemoryLedger();

  Memory Available() const;

  // Reserves the demand. Returns RESOURCE_EXHAUSTED with the numbers of the first memory that is too small for it
  // (`purpose` opens the message), or a lost device's status if the demand includes memory of it.
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
