// Tests that a LiveRoom::Take that runs out of memory does not count the live collection as open.
#include <memory>

#include <gtest/gtest.h>

#include "server/service/live_room.h"
#include "server/store/collection_store.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/failing_memory.h"

namespace maxsim::service {
namespace {

TEST(LiveRoomMemoryTest, AFailedAllocationTakesNoPlaceAndNoLock) {
  test::FakeBackend backend;
  store::CollectionStore store(&backend, {});
  LiveRoom room(&store);
  const char* const name = "a name that is longer than a short string";
  const int failed = test::FailAtEachAllocation([&] {
    const auto place = room.Take(name);
    ASSERT_TRUE(place.ok()) << place.status();
  });
  EXPECT_GT(failed, 1);
  EXPECT_TRUE(room.Take(name).ok());
}

}  // namespace
}  // namespace maxsim::service
