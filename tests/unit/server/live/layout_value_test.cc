// The value of a layout's key.
#include "server/live/shared/layout_value.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_stack.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

TEST(LayoutValueTest, WhatIsWrittenIsReadAgain) {
  std::vector<collection::SlotOwner> owners;
  for (size_t i = 0; i < collection::kMaxSlotOwners; ++i) {
    const auto first = static_cast<uint32_t>(4 * i);
    owners.push_back({absl::StrCat("g", i, std::string(59, 'x')), first, first + 4});
  }
  const std::string value = FormatLayoutValue(owners);
  EXPECT_LT(value.size(), kMaxLayoutValueBytes);
  const auto read = ParseLayoutValue(value);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, owners);
  EXPECT_EQ(FormatLayoutValue({{"g", 0, 4096}}),
            R"({"format_version":1,"owners":[{"group":"g","slots":{"end_slot":4096,"first_slot":0}}]})");
}

TEST(LayoutValueTest, MembersOfLaterVersionsAreIgnored) {
  const auto read = ParseLayoutValue(
      R"({"by": "me", "owners": [{"group": "g", "since": 7, "slots": {"first_slot": 0, "end_slot": 4096, "x": {}}}]})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, (std::vector<collection::SlotOwner>{{"g", 0, 4096}}));
}

TEST(LayoutValueTest, AValueWithoutAVersionHasVersion1AndLaterVersionsAreRefused) {
  const std::string owners = R"("owners": [{"group": "g", "slots": {"first_slot": 0, "end_slot": 4096}}]})";
  EXPECT_TRUE(ParseLayoutValue("{" + owners).ok());
  EXPECT_TRUE(ParseLayoutValue(R"({"format_version": 1, )" + owners).ok());
  for (const std::string& version : std::vector<std::string>{"0", "2", "\"1\"", "null", "1.5"}) {
    const absl::Status status = ParseLayoutValue(R"({"format_version": )" + version + ", " + owners).status();
    EXPECT_EQ(status, absl::InvalidArgumentError("format_version: " + version + "; this version reads 1"));
  }
}

TEST(LayoutValueTest, ADeeplyNestedVersionIsRefusedOnASmallStack) {
  const size_t num_levels = 130'000;
  const std::string value =
      R"({"format_version": )" + std::string(num_levels, '[') + std::string(num_levels, ']') + "}";
  ASSERT_LT(value.size(), kMaxLayoutValueBytes);
  absl::Status status;
  test::RunOnSmallStack([&] { status = ParseLayoutValue(value).status(); });
  EXPECT_EQ(status, absl::InvalidArgumentError("format_version: a list; this version reads 1"));
}

TEST(LayoutValueTest, AWrongValueIsRefusedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the value  is not a JSON object"},
      {"[1]", "the value [1] is not a JSON object"},
      {"{\"owners\": [", "is not a JSON object"},
      {"{}", "owners is not there or is not a list"},
      {R"({"owners": {}})", "owners is not there or is not a list"},
      {R"({"owners": []})", "owners: is empty"},
      {R"({"owners": [7]})", "owners[0] is not an object"},
      {R"({"owners": [{"slots": {}}]})", "owners[0].group is not there"},
      {R"({"owners": [{"group": 7, "slots": {}}]})", "owners[0].group is not there or is not a text"},
      {R"({"owners": [{"group": "g"}]})", "owners[0].slots is not there"},
      {R"({"owners": [{"group": "g", "slots": [0, 4096]}]})", "owners[0].slots is not there or is not an object"},
      {R"({"owners": [{"group": "g", "slots": {"end_slot": 4096}}]})", "owners[0].slots.first_slot is not there"},
      {R"({"owners": [{"group": "g", "slots": {"first_slot": -1, "end_slot": 4096}}]})", "owners[0].slots.first_slot"},
      {R"({"owners": [{"group": "g", "slots": {"first_slot": 0, "end_slot": 4096.5}}]})", "owners[0].slots.end_slot"},
      {R"({"owners": [{"group": "g", "slots": {"first_slot": 0, "end_slot": 4294967296}}]})",
       "owners[0].slots.end_slot is not there or is not a whole number from 0 to 4294967295"},
      {R"({"owners": [{"group": "g", "slots": {"first_slot": 0, "end_slot": 4097}}]})",
       "owners[0].slots.end_slot: is 4097"},
      {R"({"owners": [{"group": "a b", "slots": {"first_slot": 0, "end_slot": 4096}}]})",
       "owners[0].group: is \"a b\""},
  };
  for (const auto& [value, message] : cases) {
    const absl::Status status = ParseLayoutValue(value).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(LayoutValueTest, AValueHasALargestSize) {
  std::string value = R"({"owners":[{"group":"g","slots":{"first_slot":0,"end_slot":4096}}]})";
  value.append(kMaxLayoutValueBytes - value.size(), ' ');
  EXPECT_TRUE(ParseLayoutValue(value).ok());
  value += ' ';
  EXPECT_THAT(std::string(ParseLayoutValue(value).status().message()), HasSubstr("262145 bytes; must have at most"));
}

}  // namespace
}  // namespace maxsim::live
