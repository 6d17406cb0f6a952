// Converts the layout of a live collection from and to protobuf messages.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "collection/slot_layout.h"
#include "maxsim/v1/admin.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Returns the owners unchecked. They may break collection::CheckSlotOwners.
std::vector<collection::SlotOwner> OwnersOf(const v1::SlotLayout& layout);

// Returns the owners of a request. If they are not valid (collection::CheckSlotOwners), returns INVALID_ARGUMENT about
// the field, with the limit that it breaks.
absl::StatusOr<std::vector<collection::SlotOwner>> OwnersOf(const v1::SetLayoutRequest& request);

v1::SlotLayout ToProto(const collection::SlotLayout& layout);

}  // namespace maxsim::service
