#include "server/service/tenants/tenant.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/filters/filter_text.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TenantTest, AllMembersAreRead) {
  const auto settings = ParseTenant(
      R"({"tenant": "acme.1", "collections": ["b", "a"], "filter": "tenant = \"acme\"",
          "token_pairs_per_second": 2e9, "token_pairs_burst": 3000000000, "documents": 5, "bytes": 6,
          "requests_in_flight": 7})");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->name, "acme.1");
  EXPECT_THAT(settings->collections, ElementsAre("a", "b"));
  ASSERT_TRUE(settings->filter.has_value());
  EXPECT_EQ(collection::FormatFilter(*settings->filter), "tenant = \"acme\"");
  const TenantQuotas expected = {.token_pairs_per_second = 2'000'000'000,
                                 .token_pairs_burst = 3'000'000'000,
                                 .documents = 5,
                                 .bytes = 6,
                                 .requests_in_flight = 7};
  EXPECT_EQ(settings->quotas, expected);
}

TEST(TenantTest, AFilterCannotNameSlots) {
  const absl::Status status = ParseTenant(R"x({"tenant": "a", "filter": "in_slots(0-4095)"})x").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("filter: position 9: found \"(\""));
  // A field may have the name of the node.
  const auto settings = ParseTenant(R"({"tenant": "a", "filter": "in_slots = 3"})");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(*settings->filter, collection::Filter::Equals("in_slots", int64_t{3}));
}

TEST(TenantTest, ANameIsEnoughAndNothingIsBounded) {
  const auto settings = ParseTenant(R"({"tenant": "a"})");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_FALSE(settings->filter.has_value());
  EXPECT_EQ(settings->quotas, TenantQuotas());
  const Tenant tenant(*settings, std::make_shared<TenantUsage>("a"));
  EXPECT_EQ(tenant.filter(), nullptr);
  EXPECT_TRUE(tenant.MayUse("whatever"));
}

TEST(TenantTest, WithoutABurstOneSecondMayBeUsedAtOnce) {
  const auto settings = ParseTenant(R"({"tenant": "a", "token_pairs_per_second": 10})");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->quotas.token_pairs_burst, 10u);
}

TEST(TenantTest, OnlyListedCollectionsMayBeUsed) {
  const auto settings = ParseTenant(R"({"tenant": "a", "collections": ["docs", "passages"]})");
  ASSERT_TRUE(settings.ok()) << settings.status();
  const Tenant tenant(*settings, std::make_shared<TenantUsage>("a"));
  EXPECT_TRUE(tenant.MayUse("docs"));
  EXPECT_TRUE(tenant.MayUse("passages"));
  for (const char* other : {"", "doc", "docs2", "Docs", "e"}) EXPECT_FALSE(tenant.MayUse(other)) << other;
}

TEST(TenantTest, ErrorsNameTheMemberTheValueAndTheLimit) {
  const std::string long_name(65, 'a');
  const std::string long_filter = "a = \\\"" + std::string(4'096, 'x') + "\\\"";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "a JSON object must follow the token"},
      {"[]", "a JSON object must follow the token"},
      {R"({"tenant": "a"} x)", "a JSON object must follow the token"},
      {"{}", "tenant: is missing"},
      {R"({"tenant": 5})", "tenant: is \"5\"; must be a string"},
      {R"({"tenant": ""})", "tenant: is \"\"; must be 1 to 64 letters"},
      {R"({"tenant": "_other"})", "tenant: is \"_other\"; must be 1 to 64 letters"},
      {R"({"tenant": "a b"})", "the first a letter or digit"},
      {R"({"tenant": ")" + long_name + "\"}", "1 to 64 letters"},
      {R"({"tenant": "a", "tenant": "b"})", "tenant: is repeated"},
      {R"({"tenant": "a", "quota": 5})", "unknown member \"quota\"; known are tenant, collections, filter, "},
      {R"({"tenant": "a", "collections": "docs"})", "collections: is "},
      {R"({"tenant": "a", "collections": []})", "collections: has 0 names; must have 1 to 1000"},
      {R"({"tenant": "a", "collections": ["docs", 5]})", "collections: [1] is \"5\"; must be a string"},
      {R"({"tenant": "a", "collections": ["a/b"]})", "collections: [0]: "},
      {R"({"tenant": "a", "collections": ["d", "c", "d"]})", "collections: names \"d\" twice"},
      {R"({"tenant": "a", "filter": {}})", "filter: is "},
      {R"({"tenant": "a", "filter": ""})", "filter: "},
      {R"({"tenant": "a", "filter": "x = "})", "filter: position "},
      {R"({"tenant": "a", "filter": ")" + long_filter + "\"}", "filter: has 4102 bytes; must have at most 4096"},
      {R"({"tenant": "a", "documents": 0})", "documents: is \"0\"; must be a whole number from 1 to 9007199254740992"},
      {R"({"tenant": "a", "documents": -1})", "documents: is \"-1\""},
      {R"({"tenant": "a", "bytes": 1.5})", "bytes: is \"1.5\""},
      {R"({"tenant": "a", "bytes": 9007199254740994})", "bytes: is \"9007199254740994\""},
      {R"({"tenant": "a", "requests_in_flight": "8"})", "requests_in_flight: is "},
      {R"({"tenant": "a", "token_pairs_burst": 8})", "token_pairs_burst: is set, but token_pairs_per_second is not"},
  };
  for (const auto& [json, message] : cases) {
    const absl::Status status = ParseTenant(json).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << json << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << json;
  }
}

TEST(TenantTest, SizesAtTheirLimitsAreAccepted) {
  const std::string filter = "a = \\\"" + std::string(4'090, 'x') + "\\\"";  // 4,096 bytes
  const auto settings = ParseTenant(R"({"tenant": ")" + std::string(64, 'a') + R"(", "filter": ")" + filter +
                                    R"(", "bytes": 9007199254740992})");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->quotas.bytes, uint64_t{1} << 53);
}

}  // namespace
}  // namespace maxsim::service
