// Who holds how much of the backend's memory: reservations that collections take before they load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/maxsim.h"

namespace maxsim::store {

// "12.3 GiB (13,207,024,435 bytes)"; small sizes as bytes only.
std::string FormatBytes(uint64_t bytes);
// "1,234,567".
std::string FormatGrouped(uint64_t value);

// A share of the backend's memory, given back when it is destroyed. May outlive the ledger.
class Reservation {
 public:
  virtual ~Reservation() = default;
  // Says that `bytes` of it are allocated now, so that the backend's free memory shows them already.
  virtual void Commit(uint64_t bytes) = 0;
};

// Thread-safe. Reserving is one atomic step: two loads at the same time cannot both take the last free bytes.
class MemoryLedger {
 public:
  struct Availability {
    uint64_t available_bytes = 0;  // what a reservation may take
    uint64_t budget_bytes = 0;     // configured; 0: none
    uint64_t held_bytes = 0;       // by reservations alive
    uint64_t pending_bytes = 0;    // of those, not allocated yet
    uint64_t free_bytes = 0;       // as the backend reports it
    uint64_t reserve_bytes = 0;    // kept free; 0 with a configured budget
  };

  // With a budget, reservations together stay below it and below what is free; without one (0), below what is free less
  // `reserve_bytes`. `backend` must outlive the ledger.
  MemoryLedger(Backend* backend, uint64_t budget_bytes, uint64_t reserve_bytes);
  ~MemoryLedger();

  absl::StatusOr<Availability> Available() const;

  // RESOURCE_EXHAUSTED with the numbers when it does not fit; `purpose` opens the message.
  absl::StatusOr<std::shared_ptr<Reservation>> Reserve(uint64_t bytes, std::string_view purpose);

 private:
  struct Books;
  class Share;
  absl::StatusOr<Availability> AvailableLocked() const;

  Backend* const backend_;
  const uint64_t budget_bytes_;
  const uint64_t reserve_bytes_;
  const std::shared_ptr<Books> books_;
};

}  // namespace maxsim::store
