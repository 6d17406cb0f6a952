// Tests the queue of writes in virtual time: which calls are admitted, which are written next, and which expire.
#include "server/live/local/write_queue.h"

#include <map>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"

namespace maxsim::live {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kKi = 1024;
constexpr uint64_t kGroup = 8 << 20;

WriteCall CallOf(uint64_t num_bytes, uint64_t client = 0, absl::Time arrived = absl::UnixEpoch()) {
  WriteCall call;
  call.num_bytes = num_bytes;
  call.arrived = arrived;
  call.caller.client = client;
  return call;
}

class WriteQueueTest : public testing::Test {
 protected:
  static WriteQueue QueueOf(int64_t max_bytes, absl::Duration max_queue_time = absl::ZeroDuration()) {
    return WriteQueue("c", {.max_bytes = max_bytes, .max_queue_time = max_queue_time});
  }

  // Takes the next group (the calls that are written together). Returns the client number of each call in it.
  std::vector<uint64_t> Take(WriteQueue& queue, uint64_t max_bytes = kGroup) {
    group_ = queue.TakeGroup(max_bytes, now_, &expired_);
    std::vector<uint64_t> clients;
    for (const WriteCall& call : group_) clients.push_back(call.client());
    return clients;
  }

  // Advances the clock by `took`, then ends the group that was taken last.
  void Finish(WriteQueue& queue, absl::Duration took) {
    now_ += took;
    End(queue, took);
  }

  // Ends the group that was taken last. Tells the queue that writing it took `took`.
  void End(WriteQueue& queue, absl::Duration took) {
    uint64_t work = 0;
    for (const WriteCall& call : group_) {
      work += call.work();
      queue.Finish(call.client(), call.num_bytes);
    }
    queue.ObserveGroup(work, took);
    group_.clear();
  }

  // Writes `count` groups (calls that are written together) of one small call each. Each group takes 1 ms.
  void WriteSmallGroups(WriteQueue& queue, int count) {
    for (int idx = 0; idx < count; ++idx) {
      queue.Push(CallOf(kKi, 2, now_));
      Take(queue);
      Finish(queue, absl::Milliseconds(1));
    }
  }

  // Makes the queue measure a rate of one MiB per second.
  void MeasureRate(WriteQueue& queue) {
    queue.Push(CallOf(1 << 20));
    Take(queue);
    Finish(queue, absl::Seconds(1));
  }

  absl::Time now_ = absl::UnixEpoch();
  std::vector<WriteCall> group_;
  std::vector<WriteQueue::Expired> expired_;
};

TEST_F(WriteQueueTest, CountsCallsUntilTheyAreAnswered) {
  WriteQueue queue = QueueOf(100);
  queue.Push(CallOf(60));
  EXPECT_TRUE(queue.Admit(CallOf(40), now_).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Admit(CallOf(41), now_)));
  ASSERT_EQ(Take(queue).size(), 1u);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Admit(CallOf(41), now_)));
  Finish(queue, absl::Milliseconds(1));
  EXPECT_TRUE(queue.Admit(CallOf(41), now_).ok());
}

TEST_F(WriteQueueTest, LetsACallThatIsLargerThanTheBoundInByItself) {
  WriteQueue queue = QueueOf(100);
  EXPECT_TRUE(queue.Admit(CallOf(5000), now_).ok());
  queue.Push(CallOf(5000));
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Admit(CallOf(1), now_)));
}

TEST_F(WriteQueueTest, LeavesRoomForOtherClients) {
  WriteQueue queue = QueueOf(1000);
  for (int idx = 0; idx < 7; ++idx) {
    ASSERT_TRUE(queue.Admit(CallOf(100, 1), now_).ok());
    queue.Push(CallOf(100, 1));
  }
  const absl::Status refused = queue.Admit(CallOf(300, 1), now_);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(), HasSubstr("are this client's, and with this call's"));
  EXPECT_TRUE(client::RetryAfter(refused).has_value());
  EXPECT_TRUE(queue.Admit(CallOf(300, 2), now_).ok());
}

TEST_F(WriteQueueTest, TakesGroupsInOrderUpToTheirBound) {
  WriteQueue queue = QueueOf(1000);
  for (const uint64_t bytes : {10, 20, 30, 500}) queue.Push(CallOf(bytes));
  EXPECT_EQ(Take(queue, 30).size(), 2u);
  EXPECT_EQ(Take(queue, 30).size(), 1u);
  ASSERT_EQ(Take(queue, 30).size(), 1u);
  EXPECT_EQ(group_.front().num_bytes, 500u);
  EXPECT_THAT(Take(queue, 30), IsEmpty());
}

TEST_F(WriteQueueTest, TellsWhenHalfOfWhatWaitsIsWritten) {
  WriteQueue queue = QueueOf(1 << 20);
  MeasureRate(queue);
  queue.Push(CallOf(1 << 20));
  EXPECT_EQ(client::RetryAfter(queue.Admit(CallOf(1), now_)), absl::Milliseconds(500));
}

TEST_F(WriteQueueTest, AClientsSingleWriteWaitsForOneTurnOfTheOthersHoweverMuchTheyHave) {
  WriteQueue queue = QueueOf(1 << 30);
  for (int idx = 0; idx < 100; ++idx) queue.Push(CallOf(kGroup, 1));
  EXPECT_THAT(Take(queue), ElementsAre(1));
  queue.Push(CallOf(100, 2));
  std::vector<uint64_t> order;
  for (int idx = 0; idx < 3; ++idx) {
    for (const uint64_t client : Take(queue)) order.push_back(client);
  }
  EXPECT_THAT(order, testing::Contains(2)) << "within three groups";
}

TEST_F(WriteQueueTest, ClientsAreWrittenAlikeByWork) {
  WriteQueue queue = QueueOf(1 << 30);
  for (int idx = 0; idx < 50; ++idx) queue.Push(CallOf(kGroup / 2, 1));
  for (int idx = 0; idx < 5000; ++idx) queue.Push(CallOf(kGroup / 200, 2));
  std::map<uint64_t, uint64_t> written;
  while (written[1] < 20 * kGroup) {
    Take(queue);
    for (const WriteCall& call : group_) written[call.client()] += call.num_bytes;
    ASSERT_LE(std::max(written[1], written[2]) - std::min(written[1], written[2]), 3 * kGroup);
  }
}

TEST_F(WriteQueueTest, AWriteHasWorkBesideItsBytes) {
  WriteCall deletes = CallOf(1000);
  deletes.writes.resize(100);
  EXPECT_GT(deletes.work(), 100 * kKi);
}

TEST_F(WriteQueueTest, RefusesACallThatWouldWaitTooLongAndSaysWhenToComeBack) {
  WriteQueue queue = QueueOf(1 << 30, absl::Seconds(3));
  MeasureRate(queue);
  queue.Push(CallOf(4 << 20, 1, now_));
  const absl::Status refused = queue.Admit(CallOf(kKi, 1, now_), now_);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(
      refused.message(),
      HasSubstr("this call would wait for about 4s, which is more than nine tenths of live.max_queue_time, 3s"));
  EXPECT_EQ(client::RetryAfter(refused), absl::Milliseconds(1300));
  EXPECT_TRUE(queue.Admit(CallOf(kKi, 2, now_), now_).ok()) << "another client waits for a turn as long as its own";
}

TEST_F(WriteQueueTest, TheRestOfTheGroupThatIsWrittenCountsTowardsTheWait) {
  WriteQueue queue = QueueOf(1 << 30, absl::Seconds(3));
  MeasureRate(queue);
  queue.Push(CallOf(4 << 20, 1, now_));
  ASSERT_THAT(Take(queue), ElementsAre(1));
  EXPECT_FALSE(queue.Admit(CallOf(kKi, 2, now_), now_).ok()) << "4 s are left";
  EXPECT_TRUE(queue.Admit(CallOf(kKi, 2, now_), now_ + absl::Seconds(2)).ok()) << "2 s are left";
}

TEST_F(WriteQueueTest, SmallGroupsSayNothingAboutTheTimeOfALargeCall) {
  WriteQueue queue = QueueOf(int64_t{1} << 40, absl::Seconds(5));
  for (int round = 0; round < 3; ++round) {
    WriteSmallGroups(queue, 200);
    queue.Push(CallOf(430 << 20, 1, now_));
    ASSERT_THAT(Take(queue, 1 << 20), ElementsAre(1));
    const absl::Status admitted = queue.Admit(CallOf(kKi, 2, now_), now_ + absl::Milliseconds(500));
    EXPECT_TRUE(admitted.ok()) << admitted;
    Finish(queue, absl::Seconds(1));
  }
}

TEST_F(WriteQueueTest, LargeGroupsSayNothingAboutTheTimeOfASmallCall) {
  WriteQueue queue = QueueOf(1 << 30, absl::Seconds(3));
  WriteSmallGroups(queue, 10);
  MeasureRate(queue);
  queue.Push(CallOf(kKi, 1, now_));
  Take(queue);
  for (int idx = 0; idx < 100; ++idx) queue.Push(CallOf(kKi, 1, now_));
  EXPECT_TRUE(queue.Admit(CallOf(kKi, 1, now_), now_).ok());
}

TEST_F(WriteQueueTest, ARateThatWasObservedApartFromGroupsCountsWhateverItsAmount) {
  WriteQueue queue = QueueOf(1 << 30, absl::Seconds(3));
  queue.ObserveRate(100 * kKi, absl::Milliseconds(200));
  queue.Push(CallOf(2 << 20, 1, now_));
  EXPECT_FALSE(queue.Admit(CallOf(kKi, 1, now_), now_).ok()) << "2 MiB take 4 s";
  EXPECT_TRUE(queue.Admit(CallOf(kKi, 2, now_), now_).ok());
}

TEST_F(WriteQueueTest, WhatHasWaitedTooLongOrIsPastItsDeadlineIsNotWritten) {
  WriteQueue queue = QueueOf(1 << 30, absl::Seconds(3));
  WriteCall late = CallOf(10, 1, now_);
  late.caller.deadline = now_ + absl::Seconds(1);
  queue.Push(std::move(late));
  queue.Push(CallOf(20, 2, now_));
  now_ += absl::Seconds(2);
  queue.Push(CallOf(30, 3, now_));
  now_ += absl::Seconds(1);
  EXPECT_THAT(Take(queue), ElementsAre(3));
  ASSERT_EQ(expired_.size(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(expired_[0].reason)) << expired_[0].reason;
  EXPECT_TRUE(absl::IsResourceExhausted(expired_[1].reason)) << expired_[1].reason;
  EXPECT_THAT(expired_[1].reason.message(), HasSubstr("has waited for 3s (live.max_queue_time)"));
  EXPECT_TRUE(client::RetryAfter(expired_[1].reason).has_value());
  EXPECT_EQ(queue.num_bytes(), 60u) << "until they are answered";
  for (const WriteQueue::Expired& one : expired_) queue.Finish(one.call.client(), one.call.num_bytes);
  Finish(queue, absl::Seconds(1));
  EXPECT_EQ(queue.num_bytes(), 0u);
}

TEST_F(WriteQueueTest, WhatHasWaitedTooLongIsRefusedAlsoWhereNothingIsTaken) {
  WriteQueue queue = QueueOf(1 << 30, absl::Seconds(3));
  queue.TakeExpired(now_, &expired_);
  WriteCall late = CallOf(10, 1, now_);
  late.caller.deadline = now_ + absl::Seconds(1);
  queue.Push(std::move(late));
  queue.Push(CallOf(20, 2, now_));
  queue.Push(CallOf(25, 2, now_ + absl::Seconds(2)));
  queue.Push(CallOf(30, 3, now_));
  now_ += absl::Seconds(3) - absl::Nanoseconds(1);
  queue.TakeExpired(now_, &expired_);
  ASSERT_EQ(expired_.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(expired_[0].reason)) << expired_[0].reason;
  now_ += absl::Nanoseconds(1);
  queue.TakeExpired(now_, &expired_);
  ASSERT_EQ(expired_.size(), 3u);
  for (const WriteQueue::Expired& one : absl::MakeSpan(expired_).subspan(1)) {
    EXPECT_THAT(one.reason.message(), HasSubstr("has waited for 3s (live.max_queue_time)"));
  }
  for (const WriteQueue::Expired& one : expired_) queue.Finish(one.call.client(), one.call.num_bytes);
  EXPECT_EQ(queue.num_bytes(), 25u);
  EXPECT_THAT(Take(queue), ElementsAre(2));
  EXPECT_TRUE(queue.empty());
}

// After a time of small writes, four threads of one client send large calls for five minutes. Each thread sends its
// next call as soon as the last is answered. Writing a large call takes two seconds. Another client sends small writes.
// All accepted calls must be written in time, and a small write may wait for one large call at most.
TEST_F(WriteQueueTest, AFloodOfLargeCallsDelaysAnotherClientByOneOfThem) {
  constexpr absl::Duration kBound = absl::Seconds(5);
  WriteQueue queue = QueueOf(1 << 30, kBound);
  WriteSmallGroups(queue, 200);
  absl::Time began = now_;
  absl::Time ends = absl::InfiniteFuture();
  size_t small_written = 0;
  int small_refused = 0;
  absl::Time small_waits_since = absl::InfinitePast();
  absl::Duration longest;
  int large_waiting = 0;
  int large_written = 0;
  int large_expired = 0;
  for (const absl::Time end = now_ + absl::Minutes(5); now_ < end;) {
    while (large_waiting < 4 && queue.Admit(CallOf(2 << 20, 1, now_), now_).ok()) {
      queue.Push(CallOf(2 << 20, 1, now_));
      ++large_waiting;
    }
    if (small_waits_since == absl::InfinitePast()) {
      const absl::Status status = queue.Admit(CallOf(kKi, 2, now_), now_);
      small_refused += status.ok() ? 0 : 1;
      if (status.ok()) {
        queue.Push(CallOf(kKi, 2, now_));
        small_waits_since = now_;
      }
    }
    if (now_ >= ends) {
      End(queue, now_ - began);
      ends = absl::InfiniteFuture();
    }
    if (ends == absl::InfiniteFuture()) {
      uint64_t bytes = 0;
      Take(queue, 1 << 20);
      for (const WriteQueue::Expired& one : std::exchange(expired_, {})) {
        EXPECT_EQ(one.call.client(), 1u);
        queue.Finish(one.call.client(), one.call.num_bytes);
        --large_waiting;
        ++large_expired;
      }
      for (const WriteCall& call : group_) {
        bytes += call.num_bytes;
        EXPECT_LE(now_ - call.arrived, kBound);
        if (call.client() == 1) {
          --large_waiting;
          ++large_written;
        }
        if (call.client() == 2) {
          longest = std::max(longest, now_ - small_waits_since);
          small_waits_since = absl::InfinitePast();
          ++small_written;
        }
      }
      began = now_;
      if (!group_.empty()) ends = now_ + absl::Milliseconds(1) + absl::Seconds(static_cast<double>(bytes) / (1 << 20));
    }
    now_ += absl::Milliseconds(10);
  }
  EXPECT_GT(small_written, 100u);
  EXPECT_EQ(small_refused, 0);
  EXPECT_GT(large_written, 140) << "the writer is never idle";
  EXPECT_LT(large_expired, 10) << "most that would wait for longer are refused when they come";
  EXPECT_LE(longest, absl::Seconds(2) + absl::Milliseconds(20));
}

}  // namespace
}  // namespace maxsim::live
