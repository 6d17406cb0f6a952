// Slots of ids and ranges of slots.
#include "collection/slots.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"

namespace maxsim::collection {
namespace {

// The expected numbers are from another implementation: Python's xxhash, xxh3_64_intdigest(bytes) % 4096.
TEST(SlotsTest, ASlotOfAStringIsXxh3OfItsBytesModulo4096) {
  EXPECT_EQ(SlotOf("a"), 3615);
  EXPECT_EQ(SlotOf("doc-17"), 1331);
  EXPECT_EQ(SlotOf("Z\xc3\xbcrich"), 1870);
  EXPECT_EQ(SlotOf("wiki:Rhine#2"), 118);
  EXPECT_EQ(SlotOf(std::string(512, 'x')), 2662);
}

TEST(SlotsTest, ASlotOfAnIntegerIsThatOfItsEightBytes) {
  EXPECT_EQ(SlotOf(int64_t{0}), 3289);
  EXPECT_EQ(SlotOf(int64_t{1}), 2350);
  EXPECT_EQ(SlotOf(int64_t{17}), 3931);
  EXPECT_EQ(SlotOf(int64_t{-1}), 1043);
  EXPECT_EQ(SlotOf(std::numeric_limits<int64_t>::max()), 3910);
  EXPECT_EQ(SlotOf(std::numeric_limits<int64_t>::min()), 3679);
  EXPECT_EQ(SlotOf("17"), 731) << "the string is another id";
}

TEST(SlotsTest, PartitionsOfEveryCountCoverAllSlotsOnceAndDifferByOneSlot) {
  for (int32_t count = 1; count <= kNumSlots; ++count) {
    int32_t next = 0;
    for (int32_t index = 0; index < count; ++index) {
      const SlotRange range = PartitionOf(index, count);
      ASSERT_EQ(range.first, next) << index << "/" << count;
      ASSERT_EQ(range.first, index * int64_t{kNumSlots} / count);
      ASSERT_GE(range.size(), kNumSlots / count);
      ASSERT_LE(range.size(), kNumSlots / count + 1);
      next = range.end;
    }
    ASSERT_EQ(next, kNumSlots);
  }
  EXPECT_TRUE(PartitionOf(0, 1).is_whole());
}

TEST(SlotsTest, APartitionIsCutLikeTheWhole) {
  const SlotRange whole = {100, 107};
  EXPECT_EQ(PartitionOf(whole, 0, 3), (SlotRange{100, 102}));
  EXPECT_EQ(PartitionOf(whole, 1, 3), (SlotRange{102, 104}));
  EXPECT_EQ(PartitionOf(whole, 2, 3), (SlotRange{104, 107}));
}

TEST(SlotsTest, ARangeHasItsFirstSlotAndNotItsEnd) {
  const SlotRange range = {10, 12};
  EXPECT_FALSE(range.contains(9));
  EXPECT_TRUE(range.contains(10));
  EXPECT_TRUE(range.contains(11));
  EXPECT_FALSE(range.contains(12));
  EXPECT_TRUE(SlotRange().contains(0));
  EXPECT_TRUE(SlotRange().contains(kNumSlots - 1));
  EXPECT_TRUE(SlotRange().is_whole());
  EXPECT_FALSE((SlotRange{0, kNumSlots - 1}).is_whole());
}

TEST(SlotsTest, TheTextOfARangeIsReadAgain) {
  struct Case {
    std::string text;
    SlotRange range;
    std::string formatted;
  };
  for (const Case& c : std::vector<Case>{{"0/1", {0, 4096}, "0-4095"},
                                         {"0/3", {0, 1365}, "0-1364"},
                                         {"1/3", {1365, 2730}, "1365-2729"},
                                         {"2/3", {2730, 4096}, "2730-4095"},
                                         {"4095/4096", {4095, 4096}, "4095-4095"},
                                         {"0-4095", {0, 4096}, "0-4095"},
                                         {"7-7", {7, 8}, "7-7"}}) {
    const absl::StatusOr<SlotRange> range = ParseSlotRange(c.text);
    ASSERT_TRUE(range.ok()) << c.text << ": " << range.status();
    EXPECT_EQ(*range, c.range) << c.text;
    EXPECT_EQ(FormatSlotRange(*range), c.formatted);
    EXPECT_EQ(*ParseSlotRange(FormatSlotRange(*range)), c.range);
  }
  EXPECT_EQ(DescribeSlots({0, 4096}), "all slots");
  EXPECT_EQ(DescribeSlots({0, 1365}), "slots 0 .. 1364");
}

TEST(SlotsTest, OtherTextIsRefusedAndQuoted) {
  for (const std::string text : {"",
                                 "3",
                                 "/",
                                 "-",
                                 "1/",
                                 "/3",
                                 "-5",
                                 "5-",
                                 "+1/3",
                                 "1/+3",
                                 "1 /3",
                                 "0x1/3",
                                 "1/3/4",
                                 "1-3-4",
                                 "1.0/3",
                                 "a/b",
                                 "99999999999/3",
                                 "0/0",
                                 "3/3",
                                 "4/3",
                                 "0/4097",
                                 "5-4",
                                 "0-4096",
                                 "4096-4096",
                                 "1\n/3"}) {
    const absl::StatusOr<SlotRange> range = ParseSlotRange(text);
    ASSERT_EQ(range.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(range.status().message().find(absl::string_view(Quote(text))), absl::string_view::npos) << range.status();
  }
  EXPECT_EQ(ParseSlotRange("3/3").status().message(), "\"3/3\": partition 3; must be 0 to 2");
  EXPECT_EQ(ParseSlotRange("0/4097").status().message(), "\"0/4097\": 4097 partitions; must be 1 to 4096");
  EXPECT_EQ(ParseSlotRange("5-4096").status().message(),
            "\"5-4096\": slots 5 .. 4096, which are not a range in 0 .. 4095");
}

}  // namespace
}  // namespace maxsim::collection
