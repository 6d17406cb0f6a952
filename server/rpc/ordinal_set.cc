#include "server/rpc/ordinal_set.h"

#include <algorithm>
#include <bit>

namespace maxsim::rpc {
namespace {

// Of lists beyond 128 Ki ordinals a thread keeps no table: it would hold megabytes for a request that may not come
// again, and the time to make one is small beside that of the list.
constexpr size_t kMaxKeptSlots = size_t{1} << 18;
constexpr size_t kMinSlots = 16;
constexpr uint64_t kMaxList = (uint64_t{1} << 24) - 1;

}  // namespace

void OrdinalSet::Begin(size_t num_ordinals) {
  const size_t num_slots = std::bit_ceil(std::max(2 * num_ordinals, kMinSlots));
  // A table that is larger than needed is slower: it leaves the first-level cache. So only its beginning is used, and
  // entries of earlier lists may lie in it anywhere.
  if (slots_.size() < num_slots || (slots_.size() > kMaxKeptSlots && num_slots <= kMaxKeptSlots)) {
    slots_ = std::vector<uint64_t>(num_slots);
    list_ = 0;
  }
  if (list_ == kMaxList) {
    std::fill(slots_.begin(), slots_.end(), 0);
    list_ = 0;
  }
  ++list_;
  mask_ = num_slots - 1;
  shift_ = 64 - std::countr_zero(num_slots);
}

}  // namespace maxsim::rpc
