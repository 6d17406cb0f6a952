#include "server/service/documents/write_claims.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "client/status.h"
#include "collection/filters/filter_text.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::service {
namespace {

v1::Filter OwnerIs(const std::string& owner) { return FilterMessageOf(collection::Filter::Equals("owner", owner)); }

v1::UpsertRequest ClaimedUpsert(const std::string& owner, const std::vector<std::string>& ids,
                                const std::string& collection = "docs") {
  v1::UpsertRequest request;
  request.set_collection(collection);
  *request.mutable_visible() = OwnerIs(owner);
  for (const std::string& id : ids) request.add_documents()->set_string_id(id);
  return request;
}

TEST(WriteClaimsTest, AWriteWithAnotherFilterWaitsUntilTheIdIsFree) {
  WriteClaims claims;
  auto first = claims.Claim(ClaimedUpsert("acme", {"a", "b"}));
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status refused = claims.Claim(ClaimedUpsert("other", {"c", "b"})).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(client::RetryAfter(refused).has_value());
  // The refused write holds nothing.
  EXPECT_TRUE(claims.Claim(ClaimedUpsert("acme", {"c"})).ok());
  first = absl::UnknownError("");
  EXPECT_TRUE(claims.Claim(ClaimedUpsert("other", {"c", "b"})).ok());
}

TEST(WriteClaimsTest, WritesWithTheSameFilterDoNotExcludeEachOther) {
  WriteClaims claims;
  auto first = claims.Claim(ClaimedUpsert("acme", {"a", "a"}));
  auto second = claims.Claim(ClaimedUpsert("acme", {"a"}));
  ASSERT_TRUE(first.ok() && second.ok());
  first = absl::UnknownError("");
  EXPECT_FALSE(claims.Claim(ClaimedUpsert("other", {"a"})).ok());
  second = absl::UnknownError("");
  EXPECT_TRUE(claims.Claim(ClaimedUpsert("other", {"a"})).ok());
}

TEST(WriteClaimsTest, SlotsThatARouterAddedDoNotMakeAnotherFilter) {
  WriteClaims claims;
  const auto narrowed = [](const std::string& owner) {
    v1::UpsertRequest request = ClaimedUpsert(owner, {"a"});
    v1::Filter both;
    *both.mutable_all_of()->add_filters() = request.visible();
    both.mutable_all_of()->add_filters()->mutable_in_slots()->set_end_slot(7);
    *request.mutable_visible() = both;
    return request;
  };
  const auto first = claims.Claim(narrowed("acme"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(claims.Claim(ClaimedUpsert("acme", {"a"})).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(claims.Claim(narrowed("other")).status()));
}

TEST(WriteClaimsTest, CollectionsAndKindsOfIdsAreApart) {
  WriteClaims claims;
  const auto first = claims.Claim(ClaimedUpsert("acme", {"1"}));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(claims.Claim(ClaimedUpsert("other", {"1"}, "others")).ok());
  v1::UpsertRequest ints;
  ints.set_collection("docs");
  *ints.mutable_visible() = OwnerIs("other");
  ints.add_documents()->set_int_id(1);
  EXPECT_TRUE(claims.Claim(ints).ok());
}

TEST(WriteClaimsTest, DeletesClaimToo) {
  WriteClaims claims;
  std::vector<store::Write> deletes(2);
  deletes[0].string_id = "a";
  deletes[1].int_id = 7;
  const auto claim = claims.Claim("docs", OwnerIs("acme"), collection::IdType::kString, {deletes.data(), 1});
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_FALSE(claims.Claim(ClaimedUpsert("other", {"a"})).ok());
  const auto of_int = claims.Claim("docs", OwnerIs("acme"), collection::IdType::kInt64, {deletes.data() + 1, 1});
  ASSERT_TRUE(of_int.ok()) << of_int.status();
  v1::UpsertRequest ints;
  ints.set_collection("docs");
  *ints.mutable_visible() = OwnerIs("other");
  ints.add_documents()->set_int_id(7);
  EXPECT_FALSE(claims.Claim(ints).ok());
}

TEST(WriteClaimsTest, AClaimMayOutliveTheTable) {
  auto claims = std::make_unique<WriteClaims>();
  const auto claim = claims->Claim(ClaimedUpsert("acme", {"a"}));
  ASSERT_TRUE(claim.ok()) << claim.status();
  claims = nullptr;
}

}  // namespace
}  // namespace maxsim::service
