// Converts between ranges of slots and messages (PartitionInfo in rerank.proto).
#pragma once

#include <cstdint>

#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client {

// Returns whether a message names at least one slot, and only slots that exist.
inline bool IsSlotRange(const v1::PartitionInfo& slots) {
  return slots.first_slot() < slots.end_slot() && slots.end_slot() <= static_cast<uint32_t>(collection::kNumSlots);
}

// Returns the slots that a message names. IsSlotRange must return true for it.
inline collection::SlotRange SlotRangeOf(const v1::PartitionInfo& slots) {
  return {.first = static_cast<int32_t>(slots.first_slot()), .end = static_cast<int32_t>(slots.end_slot())};
}

inline v1::PartitionInfo SlotMessageOf(const collection::SlotRange& slots) {
  v1::PartitionInfo message;
  message.set_first_slot(static_cast<uint32_t>(slots.first));
  message.set_end_slot(static_cast<uint32_t>(slots.end));
  return message;
}

}  // namespace maxsim::client
