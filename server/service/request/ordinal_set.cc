#include "server/service/request/ordinal_set.h"

#include <algorithm>
#include <bit>

namespace maxsim::service {
namespace {

// The largest table that a thread keeps for the next list. A larger one would hold megabytes for a request that may not
// come again. Allocating it anew takes little time compared with processing a list of that size.
constexpr size_t kMaxKeptSlots = size_t{1} << 17;
constexpr size_t kMinSlots = 16;
constexpr uint64_t kMaxList = (uint64_t{1} << 24) - 1;
// A bitmap is faster than a table if it has at most kWordsOfOrdinal words for each ordinal in the list and fits into a
// core's L2 cache (kMaxSmallBitmap words): clearing it takes less time than a table's mispredicted branches.
constexpr uint64_t kWordsOfOrdinal = 8;
constexpr uint64_t kMaxSmallBitmap = uint64_t{1} << 15;

}  // namespace

void OrdinalSet::Begin(size_t num_ordinals, uint64_t end) {
  const size_t num_slots = std::bit_ceil(std::max(2 * num_ordinals, kMinSlots));
  const uint64_t num_words = end / 64 + 1;
  is_bitmap_ = num_words <= std::max<uint64_t>(num_ordinals, std::min(kWordsOfOrdinal * num_ordinals, kMaxSmallBitmap));
  const size_t needed = is_bitmap_ ? static_cast<size_t>(num_words) : num_slots;
  const auto clear = [this](size_t count) {
    std::fill(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(count), 0);
  };
  if (slots_.size() < needed || (slots_.size() > kMaxKeptSlots && needed <= kMaxKeptSlots)) {
    slots_ = std::vector<uint64_t>(needed);
    list_ = 0;
    bitmap_words_ = 0;
  } else if (is_bitmap_) {
    clear(needed);
  } else if (list_ == kMaxList) {
    clear(slots_.size());
    list_ = 0;
    bitmap_words_ = 0;
  } else if (bitmap_words_ > 0) {
    clear(bitmap_words_);
    bitmap_words_ = 0;
  }
  if (is_bitmap_) {
    bitmap_words_ = std::max(bitmap_words_, needed);
    return;
  }
  ++list_;
  // If the kept table is larger, only its beginning is used, for the caches.
  mask_ = num_slots - 1;
  shift_ = 64 - std::countr_zero(num_slots);
}

}  // namespace maxsim::service
