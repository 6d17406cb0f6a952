// Reads the layout of a collection: which group of servers answers for which slots (SlotLayout in rerank.proto). Pure:
// no network, no clock.
#pragma once

#include <string>
#include <string_view>

#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::cluster {

// Returns what is wrong with a layout, as a text that begins with the field ("owners[2].group is ..."). Returns "" if
// it has a revision and its owners are valid (collection::CheckSlotOwners).
std::string LayoutFault(const v1::SlotLayout& layout);

// Returns the group's entry in the layout; null if the group owns no slots. The result is a part of `layout`.
const v1::SlotOwner* OwnerIn(const v1::SlotLayout& layout, std::string_view group);

// Returns whether a server that reports `info` about a collection holds all of these slots.
bool Holds(const v1::CollectionInfo& info, const collection::SlotRange& slots);

}  // namespace maxsim::cluster
