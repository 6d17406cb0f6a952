// How many file descriptors loads may take: a load that used up all of them would keep clients from connecting.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::store {

// Thread-safe. Loads at the same time cannot both take the last free descriptors.
class DescriptorLedger {
 public:
  // Descriptors that a load is about to open. They are given back when it is destroyed. May outlive the ledger.
  class Reservation {
   public:
    virtual ~Reservation() = default;
    // Says that one of them is open now, and stays so: it is counted with those of the process from here on.
    virtual void Commit() = 0;
  };

  DescriptorLedger();
  ~DescriptorLedger();

  // RESOURCE_EXHAUSTED, with the numbers and what raises the limit, when the process's soft limit does not hold `count`
  // more and those kept free for connections (an eighth of the limit, at most 64). `purpose` opens the message. Where
  // the system does not tell how many are open, none are refused.
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t count, std::string_view purpose);

 private:
  struct Books;
  class Share;
  const std::shared_ptr<Books> books_;
};

}  // namespace maxsim::store
