// Finds repeated ordinals in a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::service {

// A set of ordinals, used for one list of candidates after another. Emptying it costs time in proportion to the list,
// not to the collection. The set is a bitmap of the documents if clearing that is cheap. Otherwise it is an
// open-addressing table whose entries carry the number of their list, so that entries of earlier lists count as empty.
// Not thread-safe: keep one set per thread, so that its memory is reused.
class OrdinalSet {
 public:
  // Empties the set, for up to `num_ordinals` ordinals below `end` (<= 2^40).
  void Begin(size_t num_ordinals, uint64_t end);

  // Returns true the first time since Begin that it gets this ordinal.
  bool Insert(uint64_t ordinal) {
    if (is_bitmap_) {
      uint64_t& word = slots_[ordinal / 64];
      const uint64_t bit = uint64_t{1} << ordinal % 64;
      const bool is_new = (word & bit) == 0;
      word |= bit;
      return is_new;
    }
    const uint64_t entry = list_ << kOrdinalBits | ordinal;
    // The high bits of the product depend on all bits of the ordinal.
    auto slot = static_cast<size_t>(ordinal * 0x9e3779b97f4a7c15u >> shift_);
    while (slots_[slot] >> kOrdinalBits == list_) {
      if (slots_[slot] == entry) return false;
      slot = (slot + 1) & mask_;
    }
    slots_[slot] = entry;
    return true;
  }

 private:
  static constexpr int kOrdinalBits = 40;  // as in store::IdIndex

  bool is_bitmap_ = false;
  size_t bitmap_words_ = 0;  // words that bitmaps have written and that no table has cleared yet
  // The words of the bitmap, or the entries of the table. The table's size is a power of two, and at least twice the
  // length of the list. An entry has the list's number in its high bits and the ordinal in the lower kOrdinalBits.
  std::vector<uint64_t> slots_;
  size_t mask_ = 0;
  int shift_ = 64;
  uint64_t list_ = 0;
};

}  // namespace maxsim::service
