#include "server/live/write_queue.h"

#include <gtest/gtest.h>

#include "client/status.h"

namespace maxsim::live {
namespace {

WriteCall CallOf(uint64_t num_bytes) {
  WriteCall call;
  call.num_bytes = num_bytes;
  return call;
}

TEST(WriteQueueTest, CountsCallsUntilTheyAreAnswered) {
  WriteQueue queue("c", 100);
  queue.Push(CallOf(60));
  EXPECT_TRUE(queue.Admit(40).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Admit(41)));
  ASSERT_EQ(queue.TakeGroup(1000).size(), 1u);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Admit(41)));
  queue.Finish(60, absl::Milliseconds(1));
  EXPECT_TRUE(queue.Admit(41).ok());
}

TEST(WriteQueueTest, LetsACallThatIsLargerThanTheBoundInByItself) {
  WriteQueue queue("c", 100);
  EXPECT_TRUE(queue.Admit(5000).ok());
  queue.Push(CallOf(5000));
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Admit(1)));
}

TEST(WriteQueueTest, TakesGroupsInOrderUpToTheirBound) {
  WriteQueue queue("c", 1000);
  for (const uint64_t bytes : {10, 20, 30, 500}) queue.Push(CallOf(bytes));
  EXPECT_EQ(queue.TakeGroup(30).size(), 2u);
  EXPECT_EQ(queue.TakeGroup(30).size(), 1u);
  EXPECT_EQ(queue.TakeGroup(30).front().num_bytes, 500u);
  EXPECT_TRUE(queue.TakeGroup(30).empty());
}

TEST(WriteQueueTest, TellsWhenHalfOfWhatWaitsIsWritten) {
  WriteQueue queue("c", 1000);
  queue.Push(CallOf(1000));
  queue.TakeGroup(1000);
  queue.Finish(1000, absl::Seconds(1));
  queue.Push(CallOf(1000));
  EXPECT_EQ(client::RetryAfter(queue.Admit(1)), absl::Milliseconds(500));
}

}  // namespace
}  // namespace maxsim::live
