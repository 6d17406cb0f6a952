#include "server/cluster/observed/slot_layout.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::StartsWith;

// tests/unit/collection/slot_layout_test.cc tests the rules for owners.
TEST(SlotLayoutTest, OwnersHaveAllSlotsTogether) {
  EXPECT_EQ(LayoutFault(LayoutOf(1, {{"g0", {0, 4096}}})), "");
  EXPECT_EQ(LayoutFault(LayoutOf(7, {{"g1", {0, 1}}, {"g0", {1, 4095}}, {"g2", {4095, 4096}}})), "");
  EXPECT_THAT(LayoutFault(LayoutOf(0, {{"g0", {0, 4096}}})), StartsWith("revision is 0"));
  EXPECT_THAT(LayoutFault(LayoutOf(1, {})), StartsWith("owners is empty"));
  EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {0, 4095}}})), StartsWith("owners[0].slots.end_slot is 4095"));
  for (const int32_t first : {99, 101}) {
    EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {0, 100}}, {"g1", {first, 4096}}})),
                StartsWith("owners[1].slots.first_slot is " + std::to_string(first)));
  }
  for (const int32_t end : {4097, 100}) {
    EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {0, 100}}, {"g1", {100, end}}})),
                StartsWith("owners[1].slots.end_slot is " + std::to_string(end)));
  }
}

TEST(SlotLayoutTest, OwnersHaveNamesOfGroupsThatDiffer) {
  EXPECT_THAT(LayoutFault(LayoutOf(1, {{"g0", {0, 100}}, {"g0", {100, 4096}}})), StartsWith("owners[1].group is"));
  EXPECT_EQ(LayoutFault(LayoutOf(1, {{std::string(64, 'g'), {0, 4096}}})), "");
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a+b"), std::string("\n"), std::string(65, 'g')}) {
    EXPECT_THAT(LayoutFault(LayoutOf(1, {{name, {0, 4096}}})), StartsWith("owners[0].group is"));
  }
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
