// Which owners a layout may have.
#include "collection/slot_layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/group_name.h"
#include "collection/slots.h"

namespace maxsim::collection {
namespace {

std::string FaultOf(const std::vector<SlotOwner>& owners) {
  const std::optional<SlotLayoutFault> fault = CheckSlotOwners(owners);
  return fault.has_value() ? absl::StrCat(fault->field, ": ", fault->problem) : "";
}

// Returns `count` owners of ranges that are about equal.
std::vector<SlotOwner> Equal(size_t count) {
  std::vector<SlotOwner> owners;
  for (size_t i = 0; i < count; ++i) {
    const SlotRange range = PartitionOf(static_cast<int32_t>(i), static_cast<int32_t>(count));
    owners.push_back({absl::StrCat("g", i), static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.end)});
  }
  return owners;
}

TEST(SlotLayoutTest, ContiguousRangesOfAllSlotsAreValid) {
  for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, kMaxSlotOwners}) EXPECT_EQ(FaultOf(Equal(count)), "");
  EXPECT_EQ(FaultOf({{"a", 0, 1}, {"A", 1, 4095}, {"a.b_c-1", 4095, 4096}}), "");
}

TEST(SlotLayoutTest, AFaultNamesTheFieldTheValueAndWhatIsAccepted) {
  EXPECT_EQ(FaultOf({}), "owners: is empty; must have 1 to 1024 groups");
  EXPECT_EQ(FaultOf(Equal(kMaxSlotOwners + 1)), "owners: has 1025 groups; must have at most 1024");
  EXPECT_EQ(FaultOf({{"a", 1, 4096}}), "owners[0].slots.first_slot: is 1; must be 0");
  EXPECT_EQ(FaultOf({{"a", 0, 7}, {"b", 8, 4096}}),
            "owners[1].slots.first_slot: is 8; must be 7, where the slots of owners[0] end");
  EXPECT_EQ(FaultOf({{"a", 0, 7}, {"b", 6, 4096}}),
            "owners[1].slots.first_slot: is 6; must be 7, where the slots of owners[0] end");
  EXPECT_EQ(FaultOf({{"a", 0, 0}, {"b", 0, 4096}}),
            "owners[0].slots.end_slot: is 0; must be more than first_slot, 0, and at most 4096");
  EXPECT_EQ(FaultOf({{"a", 0, 4097}}),
            "owners[0].slots.end_slot: is 4097; must be more than first_slot, 0, and at most 4096");
  EXPECT_EQ(FaultOf({{"a", 0, 4294967295}}),
            "owners[0].slots.end_slot: is 4294967295; must be more than first_slot, 0, and at most 4096");
  EXPECT_EQ(FaultOf({{"a", 0, 7}, {"b", 7, 4095}}),
            "owners[1].slots.end_slot: is 4095; must be 4096, because the owners must have all slots together");
  EXPECT_EQ(FaultOf({{"a", 0, 7}, {"b", 7, 8}, {"a", 8, 4096}}), "owners[2].group: is \"a\", the group of owners[0]");
  EXPECT_EQ(FaultOf({{"g 0", 0, 4096}}),
            "owners[0].group: is \"g 0\"; must be 1 to 64 characters of A-Z a-z 0-9 . _ -");
}

TEST(SlotLayoutTest, OnlyAFaultOfALimitHasALimit) {
  EXPECT_EQ(CheckSlotOwners({})->limit->max, 1024u);
  EXPECT_EQ(CheckSlotOwners({})->limit->value, 0u);
  EXPECT_EQ(CheckSlotOwners(Equal(1025))->limit->value, 1025u);
  EXPECT_EQ(CheckSlotOwners({{"a", 0, 5000}})->limit->max, 4096u);
  EXPECT_EQ(CheckSlotOwners({{"a", 0, 5000}})->limit->value, 5000u);
  EXPECT_FALSE(CheckSlotOwners({{"a", 0, 4095}})->limit.has_value());
  EXPECT_FALSE(CheckSlotOwners({{"a", 1, 4096}})->limit.has_value());
}

TEST(SlotLayoutTest, NamesOfGroupsAreShortAndPlain) {
  EXPECT_TRUE(IsGroupName(std::string(kMaxGroupNameBytes, 'z')));
  EXPECT_FALSE(IsGroupName(std::string(kMaxGroupNameBytes + 1, 'z')));
  for (const char* const name : {"a", "Z", "0", ".", "_-"}) EXPECT_TRUE(IsGroupName(name)) << name;
  for (const char* const name : {"", "a b", "a=b", "a,b", "\xc3\xbc", "a/"}) EXPECT_FALSE(IsGroupName(name)) << name;
}

}  // namespace
}  // namespace maxsim::collection
