// Which ordinals a list has named already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::rpc {

// A set of ordinals that is begun anew for each list, at the cost of the list and not of the collection: an
// open-addressing table whose entries carry the number of their list, so that those of earlier lists are as good as
// empty. Not thread-safe: one a thread, to keep its memory.
class OrdinalSet {
 public:
  // Begins a list of at most `num_ordinals`, each below 2^40.
  void Begin(size_t num_ordinals);

  // True the first time since Begin.
  bool Insert(uint64_t ordinal) {
    const uint64_t entry = list_ << kOrdinalBits | ordinal;
    // The high bits of the product are the well-mixed ones.
    size_t slot = static_cast<size_t>(ordinal * 0x9e3779b97f4a7c15u >> shift_);
    while (slots_[slot] >> kOrdinalBits == list_) {
      if (slots_[slot] == entry) return false;
      slot = (slot + 1) & mask_;
    }
    slots_[slot] = entry;
    return true;
  }

 private:
  static constexpr int kOrdinalBits = 40;  // as in store::IdIndex

  std::vector<uint64_t> slots_;  // the list's number, then the ordinal; a power of two of them, twice the list or more
  size_t mask_ = 0;
  int shift_ = 64;
  uint64_t list_ = 0;
};

}  // namespace maxsim::rpc
