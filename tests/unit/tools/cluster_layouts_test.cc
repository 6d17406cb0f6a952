// Tests the layouts that maxsimctl cluster makes from the present one.
#include "tools/maxsimctl/cluster/layouts.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/maxsimctl/cluster/plan_text.h"

namespace maxsim::ctl::cluster {
namespace {

using ::testing::HasSubstr;

const Owners kTwo = {{"g0", {0, 2048}}, {"g1", {2048, 4096}}};

// Returns the layout as text, or the message of the error.
std::string Text(const absl::StatusOr<Owners>& owners) {
  if (!owners.ok()) {
    EXPECT_EQ(owners.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(owners.status().message());
  }
  EXPECT_TRUE(CheckOwners(*owners).ok());
  return DescribeOwners(*owners);
}

TEST(ClusterLayoutsTest, GroupsGetEqualRanges) {
  EXPECT_EQ(Text(EqualOwners({"b", "a", "c"})), "b 0-1364, a 1365-2729, c 2730-4095");
  EXPECT_EQ(Text(EqualOwners({"a"})), "a 0-4095");
  EXPECT_EQ(Text(EqualOwners({})), "--groups: names no group");
  EXPECT_EQ(Text(EqualOwners({"a", "b", "a"})), "--groups: names group \"a\" twice");
  EXPECT_EQ(Text(EqualOwners(std::vector<std::string>(4097, "a"))),
            "--groups: 4097 groups; at most 4096, one for each slot");
}

TEST(ClusterLayoutsTest, AGroupIsAddedAtAPosition) {
  EXPECT_EQ(Text(WithGroup(kTwo, "g2", {})), "g0 0-1364, g1 1365-2729, g2 2730-4095");
  EXPECT_EQ(Text(WithGroup(kTwo, "g2", 0)), "g2 0-1364, g0 1365-2729, g1 2730-4095");
  EXPECT_EQ(Text(WithGroup(kTwo, "g2", 1)), "g0 0-1364, g2 1365-2729, g1 2730-4095");
  EXPECT_EQ(Text(WithGroup(kTwo, "g2", 3)), "--at: 3; must be 0 to 2");
}

TEST(ClusterLayoutsTest, AnAddedGroupStaysWhereItIs) {
  const Owners uneven = {{"g0", {0, 100}}, {"g1", {100, 4096}}};
  EXPECT_EQ(Text(WithGroup(uneven, "g1", {})), "g0 0-99, g1 100-4095") << "an interrupted command is run again";
  EXPECT_EQ(Text(WithGroup(uneven, "g1", 1)), "g0 0-99, g1 100-4095");
  EXPECT_THAT(Text(WithGroup(uneven, "g1", 0)), HasSubstr("--at: 0, but group \"g1\" is at position 1 already"));
}

TEST(ClusterLayoutsTest, AGroupIsRemoved) {
  EXPECT_EQ(Text(WithoutGroup(kTwo, "g0")), "g1 0-4095");
  EXPECT_EQ(Text(WithoutGroup(kTwo, "g2")), "g0 0-2047, g1 2048-4095") << "an interrupted command is run again";
  EXPECT_EQ(Text(WithoutGroup({{"g0", {0, 4096}}}, "g0")),
            "group \"g0\" is the only one that answers for the collection");
}

TEST(ClusterLayoutsTest, SlotsMoveAcrossABorder) {
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {2000, 2048}, "g0", "g1")), "g0 0-1999, g1 2000-4095");
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {2048, 2049}, "g1", "g0")), "g0 0-2048, g1 2049-4095");
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {2048, 4095}, "g1", "g0")), "g0 0-4094, g1 4095-4095");
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {2048, 2060}, "g0", "g1")), "g0 0-2047, g1 2048-4095") << "they have moved";
}

TEST(ClusterLayoutsTest, AGroupWithoutSlotsGetsAnEnd) {
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {1024, 2048}, "g0", "g2")), "g0 0-1023, g2 1024-2047, g1 2048-4095");
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {0, 1024}, "g0", "g2")), "g2 0-1023, g0 1024-2047, g1 2048-4095");
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {5, 10}, "g0", "g2")),
            "slots 5-9 cannot move from group g0 to group g2: possible is a part of 1-2047 that ends with 2047, or a "
            "part of 0-2046 that begins with 0; to move all of them, use remove-group or rebalance");
}

TEST(ClusterLayoutsTest, OtherMovesSayWhatIsPossible) {
  EXPECT_EQ(
      Text(WithMovedSlots(kTwo, {0, 10}, "g0", "g1")),
      "slots 0-9 cannot move from group g0 to group g1: possible is a part of 1-2047 that ends with 2047; to move "
      "all of them, use remove-group or rebalance");
  EXPECT_THAT(Text(WithMovedSlots(kTwo, {0, 2048}, "g0", "g1")), HasSubstr("a part of 1-2047 that ends with 2047"));
  EXPECT_THAT(Text(WithMovedSlots(kTwo, {2048, 4096}, "g1", "g0")),
              HasSubstr("a part of 2048-4094 that begins with 2048"));
  EXPECT_THAT(Text(WithMovedSlots(kTwo, {2040, 2060}, "g0", "g1")), HasSubstr("that ends with 2047"));
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {0, 1}, "g0", "g0")), "FROM and TO are both group \"g0\"");
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {0, 1}, "g5", "g0")), "g0 0-2047, g1 2048-4095") << "TO has them";
  EXPECT_EQ(Text(WithMovedSlots(kTwo, {0, 1}, "g5", "g1")), "FROM: group \"g5\" answers for no slots");
  const Owners three = {{"g0", {0, 10}}, {"g1", {10, 20}}, {"g2", {20, 4096}}};
  EXPECT_EQ(Text(WithMovedSlots(three, {5, 10}, "g0", "g2")),
            "slots 5-9 cannot move from group g0 to group g2: they are not neighbours; g0 has 0-9, g2 has 20-4095");
  const Owners one_slot = {{"g0", {0, 1}}, {"g1", {1, 4096}}};
  EXPECT_THAT(Text(WithMovedSlots(one_slot, {0, 1}, "g0", "g1")), HasSubstr("g0 has only slot 0"));
}

TEST(ClusterLayoutsTest, ImpossibleLayoutsAreRefused) {
  for (const Owners& wrong : std::vector<Owners>{{},
                                                 {{"a", {0, 4095}}},
                                                 {{"a", {0, 4097}}},
                                                 {{"a", {1, 4096}}},
                                                 {{"a", {0, 0}}, {"b", {0, 4096}}},
                                                 {{"a", {0, 10}}, {"b", {9, 4096}}},
                                                 {{"a", {0, 10}}, {"b", {11, 4096}}},
                                                 {{"a", {0, 10}}, {"a", {10, 4096}}}}) {
    EXPECT_EQ(CheckOwners(wrong).code(), absl::StatusCode::kInternal) << DescribeOwners(wrong);
  }
}

}  // namespace
}  // namespace maxsim::ctl::cluster
