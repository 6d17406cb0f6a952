// Slots: hash values of ids. The slot of a document decides which partition of a collection has it
// (docs/internals/cluster.md).
//
// A document's slot depends only on its id and never changes. Each partition has a range of slots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::collection {

// Number of slots. With 4,096 slots, each of up to 40 equal partitions has at least 102, so their sizes differ by at
// most 1 %.
inline constexpr int32_t kNumSlots = 4096;

// Return the slot of an id, 0 .. kNumSlots - 1: the 64-bit XXH3 (seed 0) of the id's bytes, modulo kNumSlots. An
// integer id is hashed as eight bytes, little-endian, so 17 and "17" have different hashes.
int32_t SlotOf(std::string_view id);
int32_t SlotOf(int64_t id);

// The slots `first` .. `end` - 1. Ranges that the functions of this file return have 0 <= first < end <= kNumSlots.
struct SlotRange {
  int32_t first = 0;
  int32_t end = kNumSlots;

  bool contains(int32_t slot) const { return first <= slot && slot < end; }
  bool contains(const SlotRange& other) const { return first <= other.first && other.end <= end; }
  bool is_whole() const { return first == 0 && end == kNumSlots; }
  int32_t size() const { return end - first; }

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

// Divides all slots into `count` partitions and returns partition `index`. It begins with slot index x kNumSlots /
// count, rounded down. 0 <= index < count <= kNumSlots.
SlotRange PartitionOf(int32_t index, int32_t count);

// Divides `range` into `count` parts and returns part `index`. 0 <= index < count <= range.size().
SlotRange PartitionOf(const SlotRange& range, int32_t index, int32_t count);

// Parses "I/N" (partition I of N, counted from 0) or "FIRST-LAST" (the slots from FIRST to LAST, inclusive). Numbers
// are decimal. Returns INVALID_ARGUMENT, which quotes the text, for other text and for numbers out of range.
absl::StatusOr<SlotRange> ParseSlotRange(std::string_view text);

// Returns "FIRST-LAST", which ParseSlotRange reads.
std::string FormatSlotRange(const SlotRange& range);

// Returns "slots 0 .. 1365" for messages, or "all slots".
std::string DescribeSlots(const SlotRange& range);

}  // namespace maxsim::collection
