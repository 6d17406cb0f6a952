#include "server/service/tenants/tenant_usage.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "server/service/tenants/tenant_registry.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

const absl::Time kUsageStart = absl::FromUnixSeconds(1'000'000);

constexpr TenantQuotas kPairQuotas = {.token_pairs_per_second = 100, .token_pairs_burst = 500};

TEST(TenantUsageTest, ABurstMayBeUsedAtOnceAndThenTheRate) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(499, kPairQuotas, kUsageStart).ok());
  EXPECT_TRUE(usage.ChargeTokenPairs(1, kPairQuotas, kUsageStart).ok());
  const absl::Status refused = usage.ChargeTokenPairs(1, kPairQuotas, kUsageStart);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(IsQuotaError(refused));
  EXPECT_EQ(client::ReasonOf(refused), "TENANT_QUOTA");
  EXPECT_EQ(client::FieldOf(refused), "quota.token_pairs_per_second");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("100 token pairs"));
  EXPECT_TRUE(client::RetryAfter(refused).has_value());
  // One second has made room for 100 pairs.
  EXPECT_TRUE(usage.ChargeTokenPairs(99, kPairQuotas, kUsageStart + absl::Seconds(1)).ok());
  EXPECT_TRUE(usage.ChargeTokenPairs(1, kPairQuotas, kUsageStart + absl::Seconds(1)).ok());
  EXPECT_FALSE(usage.ChargeTokenPairs(1, kPairQuotas, kUsageStart + absl::Seconds(1)).ok());
}

TEST(TenantUsageTest, ACallMayOverdrawTheBucketAndRetryInfoSaysWhenThatIsRepaid) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(1'500, kPairQuotas, kUsageStart).ok());
  const absl::Status refused = usage.CheckTokenPairs(kPairQuotas, kUsageStart);
  ASSERT_TRUE(client::RetryAfter(refused).has_value()) << refused;
  EXPECT_EQ(*client::RetryAfter(refused), absl::Seconds(10));
  EXPECT_FALSE(usage.CheckTokenPairs(kPairQuotas, kUsageStart + absl::Seconds(9)).ok());
  EXPECT_TRUE(usage.CheckTokenPairs(kPairQuotas, kUsageStart + absl::Seconds(10) + absl::Milliseconds(1)).ok());
}

TEST(TenantUsageTest, TheBucketNeverHoldsMoreThanTheBurst) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(500, kPairQuotas, kUsageStart).ok());
  const absl::Time later = kUsageStart + absl::Hours(1);
  EXPECT_TRUE(usage.ChargeTokenPairs(500, kPairQuotas, later).ok());
  EXPECT_FALSE(usage.ChargeTokenPairs(1, kPairQuotas, later).ok());
}

TEST(TenantUsageTest, ScoredCallsAreChargedAfterwards) {
  TenantUsage usage("a");
  usage.AddTokenPairs(600, kPairQuotas, kUsageStart);
  EXPECT_FALSE(usage.CheckTokenPairs(kPairQuotas, kUsageStart).ok());
  EXPECT_TRUE(usage.CheckTokenPairs(kPairQuotas, kUsageStart + absl::Seconds(2)).ok());
}

TEST(TenantUsageTest, WhatWasNotScoredIsGivenBack) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(500, kPairQuotas, kUsageStart).ok());
  EXPECT_FALSE(usage.CheckTokenPairs(kPairQuotas, kUsageStart).ok());
  usage.ReturnTokenPairs(500);
  EXPECT_TRUE(usage.ChargeTokenPairs(499, kPairQuotas, kUsageStart).ok());
  usage.ReturnTokenPairs(1'000);  // never more than the burst
  EXPECT_TRUE(usage.ChargeTokenPairs(500, kPairQuotas, kUsageStart).ok());
  EXPECT_FALSE(usage.CheckTokenPairs(kPairQuotas, kUsageStart).ok());
}

TEST(TenantUsageTest, AnEarlierTimeChangesNothing) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(500, kPairQuotas, kUsageStart).ok());
  EXPECT_FALSE(usage.ChargeTokenPairs(1, kPairQuotas, kUsageStart - absl::Hours(1)).ok());
  EXPECT_FALSE(usage.ChargeTokenPairs(1, kPairQuotas, kUsageStart).ok());
}

TEST(TenantUsageTest, NewQuotasDoNotFillTheBucket) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(500, kPairQuotas, kUsageStart).ok());
  constexpr TenantQuotas kFaster = {.token_pairs_per_second = 1'000, .token_pairs_burst = 500};
  EXPECT_FALSE(usage.CheckTokenPairs(kFaster, kUsageStart).ok());
  EXPECT_TRUE(usage.CheckTokenPairs(kFaster, kUsageStart + absl::Milliseconds(10)).ok());
}

TEST(TenantUsageTest, WithoutAQuotaNothingIsRefused) {
  TenantUsage usage("a");
  EXPECT_TRUE(usage.ChargeTokenPairs(~uint64_t{0}, {}, kUsageStart).ok());
  EXPECT_TRUE(usage.ChargeTokenPairs(~uint64_t{0}, {}, kUsageStart).ok());
  std::vector<std::shared_ptr<const void>> places;
  for (int i = 0; i < 1'000; ++i) {
    auto place = usage.TakeRequest({});
    ASSERT_TRUE(place.ok()) << place.status();
    places.push_back(*std::move(place));
  }
}

TEST(TenantUsageTest, AsManyRequestsAsTheQuotaAreInFlight) {
  auto usage = std::make_unique<TenantUsage>("a");
  constexpr TenantQuotas kTwo = {.requests_in_flight = 2};
  auto first = usage->TakeRequest(kTwo);
  auto second = usage->TakeRequest(kTwo);
  ASSERT_TRUE(first.ok() && second.ok());
  for (int attempt = 0; attempt < 3; ++attempt) {
    const absl::Status refused = usage->TakeRequest(kTwo).status();
    EXPECT_TRUE(IsQuotaError(refused)) << refused;
    EXPECT_EQ(client::FieldOf(refused), "quota.requests_in_flight");
    EXPECT_TRUE(client::RetryAfter(refused).has_value());
  }
  first = absl::UnknownError("");
  auto third = usage->TakeRequest(kTwo);
  EXPECT_TRUE(third.ok()) << third.status();
  usage = nullptr;  // A place may outlive the usage.
}

TEST(TenantUsageTest, AnErrorSaysWhichQuotaItIsAbout) {
  for (const TenantQuota quota :
       {TenantQuota::kTokenPairs, TenantQuota::kDocuments, TenantQuota::kBytes, TenantQuota::kRequestsInFlight}) {
    const absl::Status status = QuotaError(quota, "is used up", absl::ZeroDuration());
    EXPECT_EQ(QuotaOf(status), quota);
    EXPECT_EQ(client::RetryAfter(status), std::nullopt);
  }
  EXPECT_EQ(QuotaOf(absl::ResourceExhaustedError("the queue is full")), std::nullopt);
  EXPECT_EQ(QuotaOf(absl::OkStatus()), std::nullopt);
}

TEST(TenantRegistryTest, ATenantKeepsItsUsageAndTheFirstOnesHaveLabels) {
  TenantRegistry registry;
  for (size_t i = 0; i < kMaxTenantLabels; ++i) {
    EXPECT_EQ(registry.UsageOf("t" + std::to_string(i))->label(), "t" + std::to_string(i));
  }
  EXPECT_EQ(registry.UsageOf("late")->label(), kOtherTenants);
  EXPECT_EQ(registry.UsageOf("t7")->label(), "t7");
  EXPECT_EQ(registry.UsageOf("late"), registry.UsageOf("late"));
}

}  // namespace
}  // namespace maxsim::service
