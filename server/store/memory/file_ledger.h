// Limits how many file descriptors and memory mappings loads take. A load that used up all of them would keep clients
// from connecting, and the process from getting memory.
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

// The class is thread-safe: two loads at the same time cannot both reserve the last descriptors or mappings.
class FileLedger {
 public:
  // Reserves the descriptors and mappings that a load is about to open, until this object is destroyed. May outlive the
  // ledger.
  class Reservation {
   public:
    virtual ~Reservation() = default;
    // Records that `opened` of the reserved descriptors and mappings are now open, and will stay so. The ledger no
    // longer counts these as reserved, because the system reports them as used by the process.
    virtual void Commit(const FileDemand& opened) = 0;
  };

  FileLedger();
  ~FileLedger();

  // Reserves the demand. Returns RESOURCE_EXHAUSTED, with the numbers and how to raise the limit, if the process's soft
  // limit of descriptors, or the system's limit of mappings (vm.max_map_count), has no room for the demand and for the
  // number that is kept free: an eighth of the limit, but at most 64 descriptors. The message begins with `purpose`. If
  // the system does not say how many are in use, every demand is granted.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(const FileDemand& demand, std::string_view purpose);

 private:
  struct State;
  class HeldReservation;
  const std::shared_ptr<State> state_;
};

}  // namespace maxsim::store
