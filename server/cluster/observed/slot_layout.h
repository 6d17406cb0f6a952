// Reads the layout of a collection: which group of servers answers for which slots (SlotLayout in rerank.proto). Pure:
// no network, no clock.
#pragma once

#include <string>
#include <string_view>

#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::cluster {

// Returns whether a message names slots that exist, at least one.
bool IsSlotRange(const v1::PartitionInfo& slots);

// Convert between the two forms of a range. The message must be one for which IsSlotRange returns true.
collection::SlotRange RangeOf(const v1::PartitionInfo& slots);
v1::PartitionInfo MessageOf(const collection::SlotRange& slots);

// Returns what is wrong with a layout, as a text that begins with the field ("owners[2].slots is ..."). Returns "" if
// it has a revision, its owners have names of groups, no name twice, and each range begins where the one before it
// ends, so that they are all slots together.
std::string LayoutFault(const v1::SlotLayout& layout);

// Returns the group's entry in the layout; null if the group owns no slots. The result is a part of `layout`.
const v1::SlotOwner* OwnerIn(const v1::SlotLayout& layout, std::string_view group);

// Returns whether a server that reports `info` about a collection holds all of these slots.
bool Holds(const v1::CollectionInfo& info, const collection::SlotRange& slots);

}  // namespace maxsim::cluster
