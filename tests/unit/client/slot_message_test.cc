#include "client/slot_message.h"

#include <limits>

#include "gtest/gtest.h"

namespace maxsim::client {
namespace {

TEST(SlotMessageTest, ARangeOfHugeNumbersIsNoRange) {
  v1::PartitionInfo slots;
  EXPECT_FALSE(IsSlotRange(slots));
  slots.set_first_slot(std::numeric_limits<uint32_t>::max() - 1);
  slots.set_end_slot(std::numeric_limits<uint32_t>::max());
  EXPECT_FALSE(IsSlotRange(slots));
  slots.set_first_slot(4095);
  EXPECT_FALSE(IsSlotRange(slots));
  slots.set_end_slot(4096);
  ASSERT_TRUE(IsSlotRange(slots));
  EXPECT_EQ(SlotRangeOf(slots), (collection::SlotRange{4095, 4096}));
  EXPECT_EQ(SlotMessageOf(SlotRangeOf(slots)).SerializeAsString(), slots.SerializeAsString());
}

}  // namespace
}  // namespace maxsim::client
