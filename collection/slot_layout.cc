#include "collection/slot_layout.h"

#include <map>
#include <string_view>

#include "base/text.h"
#include "collection/group_name.h"
#include "collection/slots.h"

namespace maxsim::collection {

std::optional<SlotLayoutFault> CheckSlotOwners(const std::vector<SlotOwner>& owners) {
  constexpr auto kEnd = static_cast<uint32_t>(kNumSlots);
  if (owners.empty()) {
    return SlotLayoutFault{
        "owners", Cat("is empty; must have 1 to ", kMaxSlotOwners, " groups"), {{.max = kMaxSlotOwners, .value = 0}}};
  }
  if (owners.size() > kMaxSlotOwners) {
    return SlotLayoutFault{"owners",
                           Cat("has ", owners.size(), " groups; must have at most ", kMaxSlotOwners),
                           {{.max = kMaxSlotOwners, .value = owners.size()}}};
  }
  std::map<std::string_view, size_t> indexes;  // by group
  uint32_t begin = 0;
  for (size_t i = 0; i < owners.size(); ++i) {
    const SlotOwner& owner = owners[i];
    const std::string path = Cat("owners[", i, "]");
    if (!IsGroupName(owner.group)) {
      return SlotLayoutFault{Cat(path, ".group"), Cat("is ", Quote(owner.group), "; must be 1 to ", kMaxGroupNameBytes,
                                                      " characters of A-Z a-z 0-9 . _ -")};
    }
    if (const auto [same, is_new] = indexes.emplace(owner.group, i); !is_new) {
      return SlotLayoutFault{Cat(path, ".group"),
                             Cat("is ", Quote(owner.group), ", the group of owners[", same->second, "]")};
    }
    if (owner.first_slot != begin) {
      return SlotLayoutFault{
          Cat(path, ".slots.first_slot"),
          i == 0 ? Cat("is ", owner.first_slot, "; must be 0")
                 : Cat("is ", owner.first_slot, "; must be ", begin, ", where the slots of owners[", i - 1, "] end")};
    }
    if (owner.end_slot <= owner.first_slot || owner.end_slot > kEnd) {
      SlotLayoutFault fault{Cat(path, ".slots.end_slot"), Cat("is ", owner.end_slot, "; must be more than first_slot, ",
                                                              owner.first_slot, ", and at most ", kEnd)};
      if (owner.end_slot > kEnd) fault.limit = {.max = kEnd, .value = owner.end_slot};
      return fault;
    }
    begin = owner.end_slot;
  }
  if (begin != kEnd) {
    return SlotLayoutFault{Cat("owners[", owners.size() - 1, "].slots.end_slot"),
                           Cat("is ", begin, "; must be ", kEnd, ", because the owners must have all slots together")};
  }
  return std::nullopt;
}

}  // namespace maxsim::collection
