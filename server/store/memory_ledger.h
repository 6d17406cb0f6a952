// Who holds how much of the devices' memory, and of the host's for them: reservations that collections take before they
// load.
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
#include "server/store/device_set.h"

namespace maxsim::store {

// Memory of each device, and of the host beside that: pinned, on GPUs.
struct MemoryDemand {
  std::vector<uint64_t> device_bytes;  // [devices]
  uint64_t host_bytes = 0;

  uint64_t total() const;  // saturating
};

// A share of the memory, given back when it is destroyed. May outlive the ledger.
class Reservation {
 public:
  virtual ~Reservation() = default;
  // Says that `allocated` of it is allocated now, so that what is reported as free shows it already.
  virtual void Commit(const MemoryDemand& allocated) = 0;
};

// What collections may take of one memory.
struct MemoryBudget {
  uint64_t budget_bytes = 0;   // all reservations together; 0: no bound but what is free
  uint64_t reserve_bytes = 0;  // left free where there is no budget
};

// Thread-safe. Reserving is one atomic step over all memories: two loads at the same time cannot both take the last
// free bytes, nor each half of what both need.
class MemoryLedger {
 public:
  struct Availability {
    uint64_t available_bytes = 0;  // what a reservation may take
    uint64_t budget_bytes = 0;     // configured; 0: none
    uint64_t held_bytes = 0;       // by reservations alive
    uint64_t pending_bytes = 0;    // of those, not allocated yet
    uint64_t free_bytes = 0;       // as it is reported
    uint64_t reserve_bytes = 0;    // kept free; 0 with a configured budget
    absl::Status status;           // not OK when nobody says what is free: nothing is available
  };
  struct Memory {
    std::vector<Availability> devices;
    Availability host;
  };

  // With a budget, reservations together stay below it and below what is free; without one, below what is free less
  // what is left free. `device` is for each device. `devices` must outlive the ledger. `free_host_bytes` tells what is
  // free of the host's memory, and is called from any thread; null: more than anybody asks for.
  MemoryLedger(const DeviceSet* devices, MemoryBudget device, MemoryBudget host,
               std::function<uint64_t()> free_host_bytes);
  ~MemoryLedger();

  Memory Available() const;

  // RESOURCE_EXHAUSTED with the numbers of the first memory that does not hold it; `purpose` opens the message. A
  // lost device's status where something of its memory is asked for.
  absl::StatusOr<std::shared_ptr<Reservation>> Reserve(const MemoryDemand& demand, std::string_view purpose);

 private:
  struct Books;
  class Share;
  Memory AvailableLocked() const;

  const DeviceSet* const devices_;
  const MemoryBudget device_budget_;
  const MemoryBudget host_budget_;
  const std::function<uint64_t()> free_host_bytes_;
  const std::shared_ptr<Books> books_;
};

}  // namespace maxsim::store
