// Reads the field `slots` of a request that changes a collection.
#pragma once

#include "absl/status/statusor.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "collection/slots.h"
#include "maxsim/v1/admin.pb.h"
#include "server/service/call/status.h"

namespace maxsim::service {

// Returns the slots that the request names, or all slots if it names none. Returns INVALID_ARGUMENT if they are not a
// range of at least one slot.
template <typename Request>
absl::StatusOr<collection::SlotRange> SlotsOfRequest(const Request& request) {
  if (!request.has_slots()) return collection::SlotRange();
  const v1::PartitionInfo& slots = request.slots();
  if (!client::IsSlotRange(slots)) {
    return InvalidField("slots", Cat("are from ", slots.first_slot(), " to before ", slots.end_slot(),
                                     "; must be at least one, within 0 to before ", collection::kNumSlots));
  }
  return client::SlotRangeOf(slots);
}

}  // namespace maxsim::service
