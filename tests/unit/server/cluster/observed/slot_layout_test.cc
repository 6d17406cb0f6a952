#include "server/cluster/observed/slot_layout.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(SlotLayoutTest, OwnersHaveAllSlotsTogether) {
  EXPECT_EQ(LayoutFault(LayoutOf(1, {{"g0", {0, 4096}}})), "");
  EXPECT_EQ(LayoutFault(LayoutOf(7, {{"g1", {0, 1}}, {"g0", {1, 4095}}, {"g2", {4095, 4096}}})), "");
  EXPECT_THAT(LayoutFault(LayoutOf(0, {{"g0", {0, 4096}}})), StartsWith("revision is 0"));
  EXPECT_EQ(LayoutFault(LayoutOf(1, {})), "owners end at slot 0; must end at 4096");
  EXPECT_EQ(LayoutFault(LayoutOf(1, {{"g0", {0, 4095}}})), "owners end at slot 4095; must end at 4096");
  for (const collection::SlotRange second : {collection::SlotRange{99, 4096}, {101, 4096}, {100, 4097}, {100, 100}}) {
    EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {0, 100}}, {"g1", second}})),
                HasSubstr("owners[1].slots is " + std::to_string(second.first)));
  }
  EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {1, 4096}}})), HasSubstr("must be a range that begins with 0"));
}

TEST(SlotLayoutTest, OwnersHaveNamesThatDiffer) {
  EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {0, 100}}, {"g0", {100, 4096}}})), StartsWith("owners[1].group is"));
  EXPECT_EQ(LayoutFault(LayoutOf(1, {{std::string(64, 'g'), {0, 4096}}})), "");
  for (const std::string& name : {std::string(), std::string("a b"), std::string("\n"), std::string(65, 'g')}) {
    EXPECT_THAT(LayoutFault(LayoutOf(1, {{name, {0, 4096}}})), StartsWith("owners[0].group is"));
  }
}

TEST(SlotLayoutTest, ARangeOfHugeNumbersIsNoRange) {
  v1::PartitionInfo slots;
  EXPECT_FALSE(IsSlotRange(slots));
  slots.set_first_slot(std::numeric_limits<uint32_t>::max() - 1);
  slots.set_end_slot(std::numeric_limits<uint32_t>::max());
  EXPECT_FALSE(IsSlotRange(slots));
  slots.set_first_slot(4095);
  EXPECT_FALSE(IsSlotRange(slots));
  slots.set_end_slot(4096);
  ASSERT_TRUE(IsSlotRange(slots));
  EXPECT_EQ(RangeOf(slots), (collection::SlotRange{4095, 4096}));
  EXPECT_EQ(MessageOf(RangeOf(slots)).SerializeAsString(), slots.SerializeAsString());
}

TEST(SlotLayoutTest, AServerHoldsARangeIfItHoldsAllOfIt) {
  const v1::CollectionInfo info = InfoOf("c", 1, {100, 200});
  EXPECT_TRUE(Holds(info, {100, 200}));
  EXPECT_TRUE(Holds(info, {150, 151}));
  EXPECT_FALSE(Holds(info, {99, 200}));
  EXPECT_FALSE(Holds(info, {100, 201}));
  EXPECT_FALSE(Holds(info, {0, 100}));
  EXPECT_TRUE(Holds(InfoOf("c", 1, {}), {0, 4096}));
}

TEST(SlotLayoutTest, AGroupOwnsAtMostOneRange) {
  const v1::SlotLayout layout = LayoutOf(1, {{"g0", {0, 100}}, {"g1", {100, 4096}}});
  EXPECT_EQ(OwnerIn(layout, "g1"), &layout.owners(1));
  EXPECT_EQ(OwnerIn(layout, "g"), nullptr);
}

}  // namespace
}  // namespace maxsim::cluster
