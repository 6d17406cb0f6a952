// How the HTTP API reads the body of the call that sets a layout.
#include "server/http/collections/layout_body.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "collection/slot_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/collections/collection_calls.h"
#include "server/http/collections/collection_path.h"

namespace maxsim::http {
namespace {

using testing::HasSubstr;

TEST(LayoutPathTest, ALayoutIsPut) {
  const auto path = ParseCollectionPath("/v1/collections/a/layout");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(FindCollectionCall("PUT", *path), CollectionCall::kLayout);
  EXPECT_EQ(FindCollectionCall("POST", *path), std::nullopt);
  EXPECT_EQ(MethodsOf(*path, /*changes=*/true), "PUT");
  EXPECT_EQ(MethodsOf(*path, /*changes=*/false), "");
  EXPECT_STREQ(MethodOf(CollectionCall::kLayout), "http_layout");
  EXPECT_EQ(SpanNameOf(CollectionCall::kLayout), "maxsim.v1.Admin/SetLayout");
}

TEST(LayoutBodyTest, EveryMemberBecomesAField) {
  const auto request = ParseLayoutBody(R"({"expected_revision": 18446744073709551615, "owners": [
      {"group": "g0", "slots": {"first_slot": 0, "end_slot": 7}},
      {"slots": {"end_slot": 4294967295, "first_slot": 7}, "group": "g1"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->expected_revision(), 18446744073709551615u);
  ASSERT_EQ(request->owners_size(), 2);
  EXPECT_EQ(request->owners(0).group(), "g0");
  EXPECT_EQ(request->owners(0).slots().end_slot(), 7u);
  EXPECT_EQ(request->owners(1).group(), "g1");
  EXPECT_EQ(request->owners(1).slots().first_slot(), 7u);
  EXPECT_EQ(request->owners(1).slots().end_slot(), 4294967295u);
}

TEST(LayoutBodyTest, AWrongMemberIsNamed) {
  const auto with = [](const std::string& owner) {
    return absl::StrCat(
        R"({"expected_revision": 0, "owners": [{"group": "g0", "slots": {"first_slot": 0, "end_slot": 7}},)", owner,
        "]}");
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the body is not JSON"},
      {"[]", "the body is not a JSON object"},
      {"7", "the body is not a JSON object"},
      {"{}", "expected_revision: is missing"},
      {R"({"expected_revision": 0})", "owners: is missing"},
      {R"({"owners": []})", "expected_revision: is missing"},
      {R"({"expected_revision": -1, "owners": []})", "expected_revision: is -1, not a whole number from 0 on"},
      {R"({"expected_revision": null, "owners": []})", "expected_revision: is null, not a whole number"},
      {R"({"expected_revision": [0], "owners": []})", "expected_revision: is [0], not a whole number"},
      {R"({"expected_revision": 0, "owners": {}})", "owners: is {}, not a list"},
      {R"({"expected_revision": 0, "owners": 7})", "owners: is 7, not a list"},
      {R"({"expected_revision": 0, "expected_revision": 0, "owners": []})", "expected_revision: appears twice"},
      {R"({"expected_revision": 0, "name": "a", "owners": []})",
       "name: is not a member (expected_revision and owners are)"},
      {with("7"), "owners[1]: is 7, not an object with group and slots"},
      {with("[{}]"), "owners[1]: is [{}], not an object with group and slots"},
      {with("{}"), "owners[1].group: is missing"},
      {with(R"({"group": "g"})"), "owners[1].slots: is missing"},
      {with(R"({"group": 7})"), "owners[1].group: is 7, not a text"},
      {with(R"({"group": {}})"), "owners[1].group: is {}, not a text"},
      {with(R"({"slots": "0-7"})"), "owners[1].slots: is \"0-7\", not an object with first_slot and end_slot"},
      {with(R"({"slots": [0, 7]})"), "owners[1].slots: is [0, 7], not an object"},
      {with(R"({"group": "g", "group": "g"})"), "owners[1].group: appears twice"},
      {with(R"({"groups": "g"})"), "owners[1].groups: is not a member (group and slots are)"},
      {with(R"({"slots": {"first_slot": 0}})"), "owners[1].slots.end_slot: is missing"},
      {with(R"({"slots": {"first_slot": 0.5}})"), "owners[1].slots.first_slot: is 0.5, not a whole number"},
      {with(R"({"slots": {"first_slot": 4294967296}})"), "owners[1].slots.first_slot: is 4294967296, not a whole"},
      {with(R"({"slots": {"first_slot": {}}})"), "owners[1].slots.first_slot: is {}, not a whole number"},
      {with(R"({"slots": {"first": 0}})"), "owners[1].slots.first: is not a member (first_slot and end_slot are)"},
  };
  for (const auto& [body, message] : cases) {
    const absl::Status status = ParseLayoutBody(body).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << body;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << body;
  }
}

TEST(LayoutBodyTest, ABodyOfManyOwnersIsNotReadToItsEnd) {
  std::string body = R"({"expected_revision": 0, "owners": [)";
  for (size_t i = 0; i < collection::kMaxSlotOwners + 2; ++i) {
    absl::StrAppend(&body, i == 0 ? "" : ",", R"({"group": "g", "slots": {"first_slot": 0, "end_slot": 1}})");
  }
  const absl::Status status = ParseLayoutBody(body).status();
  EXPECT_EQ(client::FieldOf(status), "owners");
  EXPECT_EQ(client::LimitOf(status), collection::kMaxSlotOwners);
}

}  // namespace
}  // namespace maxsim::http
