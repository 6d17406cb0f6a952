// Filters as messages.
#include "server/service/selection/filter_message.h"

#include <cstdint>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using ::testing::HasSubstr;

std::string MessageError(const v1::Filter& message) {
  const auto filter = FilterOf(message);
  if (filter.ok()) return "(accepted)";
  EXPECT_TRUE(absl::IsInvalidArgument(filter.status()));
  return std::string(filter.status().message());
}

TEST(FilterMessageTest, RandomFiltersReturn) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  collection::RandomFilters random(seed);
  random.UseSlots(6);
  for (int round = 0; round < 2000; ++round) {
    const Filter filter = random.Tree(1 + round % 6);
    std::string bytes;
    ASSERT_TRUE(FilterMessageOf(filter).SerializeToString(&bytes));
    v1::Filter message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    const auto returned = FilterOf(message);
    ASSERT_TRUE(returned.ok()) << returned.status() << message.DebugString();
    ASSERT_EQ(*returned, filter) << message.DebugString();
  }
}

TEST(FilterMessageTest, WhatIsNotSetIsNamedWithItsPlace) {
  EXPECT_EQ(MessageError({}), "the filter is not set");
  v1::Filter message;
  message.mutable_all_of();
  EXPECT_EQ(MessageError(message), "all_of.filters: is empty; must have at least one");
  message.mutable_all_of()->add_filters()->set_exists("a");
  message.mutable_all_of()->add_filters()->mutable_negation();
  EXPECT_EQ(MessageError(message), "all_of.filters[1].negation is not set");
  message.mutable_all_of()->mutable_filters(1)->mutable_negation()->mutable_equals()->set_field("a");
  EXPECT_EQ(MessageError(message), "all_of.filters[1].negation.equals.value is not set");
  message.mutable_is_in()->set_field("a");
  EXPECT_EQ(MessageError(message), "field \"a\": has 0 values, expected at least one");
  message.mutable_is_in()->add_values()->set_boolean_value(false);
  EXPECT_EQ(MessageError(message), "(accepted)");
  message.mutable_is_in()->add_values();
  EXPECT_EQ(MessageError(message), "is_in.values[1] is not set");
  message.mutable_range()->set_field("a");
  EXPECT_EQ(MessageError(message), "field \"a\": a range has no bound");
  message.mutable_range()->mutable_low();
  EXPECT_EQ(MessageError(message), "range.low.value is not set");
  message.mutable_range()->mutable_low()->mutable_value()->set_integer_value(0);
  message.mutable_range()->mutable_high();
  EXPECT_EQ(MessageError(message), "range.high.value is not set");
  message.set_exists("");
  EXPECT_THAT(MessageError(message), HasSubstr("name: \"\" must be 1 to 64 characters of"));
}

TEST(FilterMessageTest, ARangeOfSlotsLiesWithinAllSlots) {
  const auto error_of = [](uint32_t first, uint32_t end) {
    v1::Filter message;
    v1::PartitionInfo& slots = *message.mutable_any_of()->add_filters()->mutable_in_slots();
    slots.set_first_slot(first);
    slots.set_end_slot(end);
    return MessageError(message);
  };
  EXPECT_EQ(error_of(0, 4096), "(accepted)");
  EXPECT_EQ(error_of(4095, 4096), "(accepted)");
  EXPECT_EQ(error_of(4096, 4097), "any_of.filters[0].in_slots.first_slot: is 4096; must be 0 to 4095");
  EXPECT_EQ(error_of(UINT32_MAX, 5), "any_of.filters[0].in_slots.first_slot: is 4294967295; must be 0 to 4095");
  EXPECT_EQ(error_of(0, 0), "any_of.filters[0].in_slots.end_slot: is 0; must be 1 to 4096");
  EXPECT_EQ(error_of(9, 9), "any_of.filters[0].in_slots.end_slot: is 9; must be 10 to 4096");
  EXPECT_EQ(error_of(9, UINT32_MAX), "any_of.filters[0].in_slots.end_slot: is 4294967295; must be 10 to 4096");
}

TEST(FilterMessageTest, SlotsThatNarrowAFilterCanBeTakenAway) {
  const auto without = [](const Filter& filter) {
    const std::optional<v1::Filter> rest = WithoutSlots(FilterMessageOf(filter));
    return rest.has_value() ? *FilterOf(*rest) : Filter::Everything();
  };
  const Filter slots = Filter::InSlots({3, 9});
  const Filter a = Filter::Exists("a");
  const Filter both = Filter::And({a, Filter::Exists("b")});
  EXPECT_EQ(without(slots), Filter::Everything()) << "nothing is left";
  EXPECT_EQ(without(Filter::And({slots, slots})), Filter::Everything());
  EXPECT_EQ(without(Filter::And({slots, Filter::And({slots})})), Filter::Everything());
  for (const Filter& filter : {a, both, Filter::Or({a, slots}), Filter::Not(slots), Filter::And({a})}) {
    EXPECT_EQ(without(filter), filter);
    EXPECT_EQ(without(Filter::And({filter, slots})), filter);
    EXPECT_EQ(without(Filter::And({slots, filter})), filter);
    EXPECT_EQ(without(Filter::And({slots, Filter::And({filter, slots})})), filter);
  }
  EXPECT_EQ(without(Filter::And({a, slots, Filter::Exists("b")})), both);
}

TEST(FilterMessageTest, DepthAndSizeAreBounded) {
  v1::Filter message;
  v1::Filter* inner = &message;
  for (int level = 1; level < collection::kMaxFilterDepth; ++level) inner = inner->mutable_negation();
  inner->set_exists("a");
  EXPECT_EQ(MessageError(message), "(accepted)");
  inner->mutable_negation()->set_exists("a");
  EXPECT_EQ(MessageError(message), "the filter is nested deeper than 32 levels");
  v1::Filter many;
  for (size_t idx = 1; idx < collection::kMaxFilterNodes; ++idx) many.mutable_any_of()->add_filters()->set_exists("a");
  EXPECT_EQ(MessageError(many), "(accepted)");
  many.mutable_any_of()->add_filters()->set_exists("a");
  EXPECT_EQ(MessageError(many), "the filter has more than 1024 nodes");
  v1::Filter values;
  values.mutable_is_in()->set_field("a");
  for (size_t idx = 0; idx < collection::kMaxFilterValues; ++idx) {
    values.mutable_is_in()->add_values()->set_integer_value(1);
  }
  EXPECT_EQ(MessageError(values), "(accepted)");
  values.mutable_is_in()->add_values()->set_integer_value(1);
  EXPECT_EQ(MessageError(values), "is_in.values: the filter has more than 16384 values");
}

}  // namespace
}  // namespace maxsim::service
