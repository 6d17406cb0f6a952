// Filters as messages.
#include "server/service/selection/filter_message.h"

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
