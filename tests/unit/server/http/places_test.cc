#include "server/http/transport/places.h"

#include <gtest/gtest.h>

#include <memory>

namespace maxsim::http {
namespace {

TEST(PlacesTest, APlaceIsFreeAgainWhenItsLastCopyGoes) {
  Places places(1);
  std::shared_ptr<const void> place = places.TryTake();
  std::shared_ptr<const void> copy = place;
  EXPECT_NE(place, nullptr);
  EXPECT_EQ(places.TryTake(), nullptr);
  place = nullptr;
  EXPECT_EQ(places.TryTake(), nullptr);
  copy = nullptr;
  EXPECT_NE(places.TryTake(), nullptr);
}

TEST(PlacesTest, APlaceMayOutliveTheObjectThatGaveIt) {
  auto places = std::make_unique<Places>(1);
  std::shared_ptr<const void> place = places->TryTake();
  places = nullptr;
  place = nullptr;  // AddressSanitizer would report a write to freed memory
}

}  // namespace
}  // namespace maxsim::http
