// Tests which filters are valid, and their limits.
#include "collection/filters/filter.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

std::string WrongWith(const Filter& filter) {
  const absl::Status status = CheckFilter(filter);
  if (status.ok()) return "(accepted)";
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

Filter Leaf() { return Filter::Equals("a", int64_t{1}); }

TEST(FilterTest, NodesOfEveryKindAreAccepted) {
  EXPECT_EQ(WrongWith(Filter::And({Leaf(), Filter::Or({Leaf()}), Filter::Not(Leaf()), Filter::In("b", {true, false}),
                                   Filter::Range("c", FilterBound{1.5}, std::nullopt), Filter::Exists("d")})),
            "(accepted)");
}

TEST(FilterTest, NodesThatAreNotWhatTheirKindSaysAreNamed) {
  EXPECT_EQ(WrongWith(Filter::And({})), "and: has no filter; must have at least one");
  EXPECT_EQ(WrongWith(Filter::Or({})), "or: has no filter; must have at least one");
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kNot}), "not: has 0 filters; must have one");
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kNot, .children = {Leaf(), Leaf()}}), "not: has 2 filters; must have one");
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kAnd, .children = {Leaf()}, .field = "a"}),
            "and: has a field or a value of its own");
  EXPECT_EQ(WrongWith(Filter::Exists("")),
            "field \"\": name: \"\" must be 1 to 64 characters of A-Z a-z 0-9 _, the first not a digit");
  EXPECT_THAT(WrongWith(Filter::Exists("a = 1 or b")), HasSubstr("\"a = 1 or b\" must be 1 to 64 characters of"));
  EXPECT_THAT(WrongWith(Filter::Exists("not")), HasSubstr("\"not\" is a word of the filter grammar"));
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kExists, .children = {Leaf()}, .field = "a"}),
            "field \"a\": a comparison has filters in it");
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kEquals, .field = "a"}), "field \"a\": has 0 values, expected one");
  EXPECT_EQ(WrongWith(Filter::In("a", {})), "field \"a\": has 0 values, expected at least one");
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kExists, .field = "a", .values = {true}}),
            "field \"a\": has 1 values, expected none");
  EXPECT_EQ(WrongWith(Filter::Range("a", std::nullopt, std::nullopt)), "field \"a\": a range has no bound");
  EXPECT_EQ(WrongWith({.kind = Filter::Kind::kExists, .field = "a", .low = FilterBound{true}}),
            "field \"a\": has a bound, but is not a range");
  EXPECT_EQ(WrongWith(Filter::Equals("a", std::nan(""))), "field \"a\": nan is not finite");
  EXPECT_EQ(WrongWith(Filter::Range("a", std::nullopt, FilterBound{INFINITY})), "field \"a\": inf is not finite");
  EXPECT_EQ(WrongWith(Filter::Equals("a", "\xff")), "field \"a\": a value is not UTF-8");
}

TEST(FilterTest, ARangeOfSlotsLiesWithinAllSlots) {
  const auto wrong_with = [](int32_t first, int32_t end) { return WrongWith(Filter::InSlots({first, end})); };
  EXPECT_EQ(wrong_with(0, kNumSlots), "(accepted)");
  EXPECT_EQ(wrong_with(kNumSlots - 1, kNumSlots), "(accepted)");
  EXPECT_EQ(wrong_with(-1, 5), "in_slots: the first slot is -1; must be 0 to 4095");
  EXPECT_EQ(wrong_with(4096, 4097), "in_slots: the first slot is 4096; must be 0 to 4095");
  EXPECT_EQ(wrong_with(7, 7), "in_slots: the end is 7; must be 8 to 4096");
  EXPECT_EQ(wrong_with(7, 4097), "in_slots: the end is 4097; must be 8 to 4096");
  Filter filter = Filter::InSlots({1, 2});
  filter.field = "a";
  EXPECT_EQ(WrongWith(filter), "in_slots: has a field, a value or a filter of its own");
  filter = Leaf();
  filter.slots = {1, 2};
  EXPECT_EQ(WrongWith(Filter::Not(filter)), "a filter other than in_slots has a range of slots");
}

TEST(FilterTest, SlotsThatAreNotHeldAreFoundWhereverTheyAre) {
  const SlotRange held{100, 200};
  const auto found = [&](const Filter& filter) { return FindSlotsOutside(filter, held); };
  EXPECT_EQ(found(Leaf()), std::nullopt);
  EXPECT_EQ(found(Filter::InSlots({100, 200})), std::nullopt);
  EXPECT_EQ(found(Filter::InSlots({150, 160})), std::nullopt);
  for (const SlotRange outside : {SlotRange{99, 200}, SlotRange{100, 201}, SlotRange{0, 50}, SlotRange()}) {
    EXPECT_EQ(found(Filter::InSlots(outside)), outside);
    EXPECT_EQ(found(Filter::Not(Filter::Or({Leaf(), Filter::And({Leaf(), Filter::InSlots(outside)})}))), outside);
  }
}

Filter Nested(int depth) {
  Filter filter = Leaf();
  for (int level = 1; level < depth; ++level) filter = Filter::Not(std::move(filter));
  return filter;
}

TEST(FilterTest, ARestrictionToSlotsDoesNotCount) {
  const Filter slots = Filter::InSlots({3, 9});
  EXPECT_EQ(WrongWith(Filter::And({Nested(kMaxFilterDepth), slots})), "(accepted)");
  EXPECT_EQ(WrongWith(Filter::And({Nested(kMaxFilterDepth + 1), slots})), "the filter is nested deeper than 32 levels");
  EXPECT_EQ(WrongWith(Filter::And({slots, Nested(kMaxFilterDepth)})), "the filter is nested deeper than 32 levels");
  EXPECT_EQ(WrongWith(Filter::Not(Filter::And({Nested(kMaxFilterDepth - 1), slots}))),
            "the filter is nested deeper than 32 levels");
}

TEST(FilterTest, LimitsAreNamed) {
  EXPECT_EQ(WrongWith(Nested(kMaxFilterDepth)), "(accepted)");
  EXPECT_EQ(WrongWith(Nested(kMaxFilterDepth + 1)), "the filter is nested deeper than 32 levels");
  EXPECT_EQ(WrongWith(Filter::And(std::vector<Filter>(kMaxFilterNodes - 1, Leaf()))), "(accepted)");
  EXPECT_EQ(WrongWith(Filter::And(std::vector<Filter>(kMaxFilterNodes, Leaf()))),
            "the filter has more than 1024 nodes");
  EXPECT_EQ(WrongWith(Filter::In("a", std::vector<FilterValue>(kMaxFilterValues, int64_t{1}))), "(accepted)");
  EXPECT_EQ(WrongWith(Filter::In("a", std::vector<FilterValue>(kMaxFilterValues + 1, int64_t{1}))),
            "the filter has more than 16384 values");
}

}  // namespace
}  // namespace maxsim::collection
