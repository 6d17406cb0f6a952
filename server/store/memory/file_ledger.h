// How many file descriptors and memory mappings loads may take: a load that used up all of them would keep clients from
// connecting, and the process from getting memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::store {

struct FileDemand {
  int64_t descriptors = 0;
  int64_t mappings = 0;
};

// The class is thread-safe. Loads at the same time cannot both take the last descriptors or mappings.
class FileLedger {
 public:
  // Descriptors and mappings that a load is about to take, until this is destroyed. May outlive the ledger.
  class Reservation {
   public:
    virtual ~Reservation() = default;
    // Says that `opened` of them are open and mapped now, and stay so: from here on they are counted as used by the
    // process.
    virtual void Commit(const FileDemand& opened) = 0;
  };

  FileLedger();
  ~FileLedger();

  // Reserves the demand. Returns RESOURCE_EXHAUSTED, with the numbers and what raises the limit, when the process's
  // soft limit of descriptors, or the system's of mappings (vm.max_map_count), does not hold the demand and what is
  // kept free: an eighth of the limit, but of descriptors at most 64. `purpose` opens the message. Where the system
  // does not tell what is in use, nothing is refused.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(const FileDemand& demand, std::string_view purpose);

 private:
  struct State;
  class HeldReservation;
  const std::shared_ptr<State> state_;
};

}  // namespace maxsim::store
