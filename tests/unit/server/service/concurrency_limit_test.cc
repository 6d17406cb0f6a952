#include "server/service/call/concurrency_limit.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/time/time.h"
#include "client/status.h"

namespace maxsim::service {
namespace {

TEST(ConcurrencyLimitTest, APlaceIsFreeAgainWhenItsLastCopyGoes) {
  ConcurrencyLimit limit(1, "calls", absl::Seconds(1));
  std::shared_ptr<const void> place = limit.TryTake();
  std::shared_ptr<const void> copy = place;
  EXPECT_NE(place, nullptr);
  EXPECT_EQ(limit.TryTake(), nullptr);
  place = nullptr;
  EXPECT_EQ(limit.TryTake(), nullptr);
  copy = nullptr;
  EXPECT_NE(limit.TryTake(), nullptr);
}

TEST(ConcurrencyLimitTest, APlaceMayOutliveTheObjectThatGaveIt) {
  auto limit = std::make_unique<ConcurrencyLimit>(1, "calls", absl::Seconds(1));
  std::shared_ptr<const void> place = limit->TryTake();
  limit = nullptr;
  place = nullptr;  // AddressSanitizer would report a write to freed memory
}

TEST(ConcurrencyLimitTest, TheErrorNamesTheLimitTheCallsAndTheRetryDelay) {
  ConcurrencyLimit limit(1, "explanations", absl::Milliseconds(100));
  auto place = limit.Take();
  ASSERT_TRUE(place.ok()) << place.status();
  const absl::Status full = limit.Take().status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(full.message(), "1 explanations are in progress, which is the limit");
  EXPECT_EQ(client::RetryAfter(full), absl::Milliseconds(100));
  place->reset();
  EXPECT_TRUE(limit.Take().ok());
}

}  // namespace
}  // namespace maxsim::service
