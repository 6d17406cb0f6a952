#include "server/service/call/concurrency_limit.h"

#include <gtest/gtest.h>

#include <memory>

namespace maxsim::service {
namespace {

TEST(ConcurrencyLimitTest, APlaceIsFreeAgainWhenItsLastCopyGoes) {
  ConcurrencyLimit limit(1);
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
  auto limit = std::make_unique<ConcurrencyLimit>(1);
  std::shared_ptr<const void> place = limit->TryTake();
  limit = nullptr;
  place = nullptr;  // AddressSanitizer would report a write to freed memory
}

}  // namespace
}  // namespace maxsim::service
