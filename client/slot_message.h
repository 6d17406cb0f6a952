// Converts between ranges of slots and messages (PartitionInfo in rerank.proto).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text.h"
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

// Returns the slots of a collection on a server, or of a snapshot that a server sends: all slots unless `info` has a
// partition. Returns INTERNAL if the partition has slots that do not exist.
inline absl::StatusOr<collection::SlotRange> SlotsOfSnapshot(const v1::CollectionInfo& info) {
  if (!info.has_partition()) return collection::SlotRange();
  const v1::PartitionInfo& slots = info.partition();
  if (IsSlotRange(slots)) return SlotRangeOf(slots);
  return absl::InternalError(Cat("the snapshot has the slots from ", slots.first_slot(), " to before ",
                                 slots.end_slot(), "; must be within 0 to before ", collection::kNumSlots));
}

inline v1::PartitionInfo SlotMessageOf(const collection::SlotRange& slots) {
  v1::PartitionInfo message;
  message.set_first_slot(static_cast<uint32_t>(slots.first));
  message.set_end_slot(static_cast<uint32_t>(slots.end));
  return message;
}

}  // namespace maxsim::client
