// Slots: what decides which partition of a collection holds a document (docs/internals/cluster.md).
//
// A document's slot depends on its id alone and never changes, so that the id is enough to find the document. A
// partition has a range of slots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::collection {

// Number of slots, along which partitions are cut. With 4,096 slots the sizes of up to 40 partitions differ by one
// slot, 1 %, and the range of a partition is still short to write.
inline constexpr int32_t kNumSlots = 4096;

// Returns the slot of an id, 0 .. kNumSlots - 1: XXH3 of 64 bits, with seed 0, of its bytes, modulo kNumSlots. An
// integer id's bytes are its eight in little-endian order, so that the slot of 17 is not that of "17".
int32_t SlotOf(std::string_view id);
int32_t SlotOf(int64_t id);

// The slots `first` .. `end` - 1. Every range that a function here returns has 0 <= first < end <= kNumSlots.
struct SlotRange {
  int32_t first = 0;
  int32_t end = kNumSlots;

  bool contains(int32_t slot) const { return first <= slot && slot < end; }
  bool is_whole() const { return first == 0 && end == kNumSlots; }
  int32_t size() const { return end - first; }

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

// Returns partition `index` of `count`: the slots from index x kNumSlots / count, rounded down, to where the next one
// begins. 0 <= index < count <= kNumSlots.
SlotRange PartitionOf(int32_t index, int32_t count);

// Returns partition `index` of `count` of the slots of `range`. `count` is at most range.size().
SlotRange PartitionOf(const SlotRange& range, int32_t index, int32_t count);

// Parses "I/N", partition I of N, counted from 0, or "FIRST-LAST", the slots from FIRST to LAST, both of them in the
// range. INVALID_ARGUMENT, which quotes the text, for anything else, and for numbers beyond their limits. Numbers are
// decimal, without sign or blanks.
absl::StatusOr<SlotRange> ParseSlotRange(std::string_view text);

// Returns "FIRST-LAST", which ParseSlotRange reads.
std::string FormatSlotRange(const SlotRange& range);

// Returns "slots 0 .. 1365" for messages, or "all slots".
std::string DescribeSlots(const SlotRange& range);

}  // namespace maxsim::collection
