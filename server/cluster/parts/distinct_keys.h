// Finds repeated keys in a list of known size.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/hash/hash.h"

namespace maxsim::cluster {

// An open-addressing table that never grows. The standard library's sets allocate once per key, which would cost more
// than the rest of a check; abseil's do not survive an allocation that throws. The hash is seeded per process.
template <typename Key>
class DistinctKeys {
 public:
  // Makes a table with room for `max_keys` keys; `max_keys` must be below 2^31. Keys that are strings are stored as
  // views, and the strings must outlive the table.
  explicit DistinctKeys(size_t max_keys) : slots_(std::bit_ceil(2 * max_keys + 1)) { keys_.reserve(max_keys); }

  // Adds the key, which may have any value (0, too). Returns false, and changes nothing, if the table already has it.
  bool Insert(Key key) {
    size_t slot = absl::Hash<Key>()(key) & (slots_.size() - 1);
    while (slots_[slot] != 0) {
      if (keys_[slots_[slot] - 1] == key) return false;
      slot = (slot + 1) & (slots_.size() - 1);
    }
    keys_.push_back(key);
    slots_[slot] = static_cast<uint32_t>(keys_.size());
    return true;
  }

  size_t size() const { return keys_.size(); }

 private:
  std::vector<uint32_t> slots_;  // index in `keys_` plus 1; 0 if empty
  std::vector<Key> keys_;
};

}  // namespace maxsim::cluster
