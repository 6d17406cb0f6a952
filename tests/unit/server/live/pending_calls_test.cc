#include "server/live/stream/pending_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace maxsim::live {
namespace {

const absl::Time kBegin = absl::UnixEpoch();

std::unique_ptr<PendingCall> PendingOf(size_t num_writes, size_t num_bytes = 10) {
  auto call = std::make_unique<PendingCall>();
  call->writes.resize(num_writes);
  call->call.writes.resize(num_writes);
  for (size_t idx = 0; idx < num_writes; ++idx) {
    call->call.writes[idx].string_id = "id" + std::to_string(idx);
    call->writes[idx].data = std::make_shared<const std::string>(num_bytes, 'x');
  }
  return call;
}

store::WriteResult Applied(uint64_t sequence) {
  return {.outcome = store::WriteResult::Outcome::kApplied, .sequence = sequence};
}

TEST(PendingCalls, FindsAWriteByItsIdAndNoOther) {
  PendingCalls calls("ab");
  PendingCall* const first = calls.Add(PendingOf(2));
  PendingCall* const second = calls.Add(PendingOf(3));
  EXPECT_EQ(calls.IdOf(first->first_number), "ab-1");
  EXPECT_EQ(calls.IdOf(second->first_number + 2), "ab-5");
  ASSERT_TRUE(calls.Find("ab-2").has_value());
  EXPECT_EQ(calls.Find("ab-2")->call, first);
  EXPECT_EQ(calls.Find("ab-2")->idx, 1u);
  EXPECT_EQ(calls.Find("ab-3")->call, second);
  for (const char* const id :
       {"", "ab", "ab-", "ab-0", "ab-6", "ac-1", "ab-1x", "ab-x", "ab--1", "a", "ab-99999999999999999999"}) {
    EXPECT_FALSE(calls.Find(id).has_value()) << id;
  }
  calls.Take(*first);
  EXPECT_FALSE(calls.Find("ab-2").has_value());
  EXPECT_TRUE(calls.Find("ab-3").has_value());
}

TEST(PendingCalls, SendsInOrderPastCallsThatAreGone) {
  PendingCalls calls("ab");
  PendingCall* const first = calls.Add(PendingOf(2));
  PendingCall* const second = calls.Add(PendingOf(1));
  PendingCall* const third = calls.Add(PendingOf(1));
  EXPECT_EQ(calls.FindUnsent(), first);
  calls.NoteSent(*first, 0, kBegin);
  EXPECT_EQ(calls.FindUnsent(), first);
  calls.NoteSent(*first, 1, kBegin);
  EXPECT_EQ(calls.FindUnsent(), second);
  calls.Take(*second);
  EXPECT_EQ(calls.FindUnsent(), third);
  calls.NoteSent(*third, 0, kBegin);
  EXPECT_EQ(calls.FindUnsent(), nullptr);
  // Sending a message a second time must not make another call unsent.
  calls.NoteSent(*first, 0, kBegin);
  EXPECT_EQ(calls.FindUnsent(), nullptr);
  EXPECT_EQ(calls.FindUnsent(), nullptr);
  PendingCall* const fourth = calls.Add(PendingOf(1));
  EXPECT_EQ(calls.FindUnsent(), fourth);
}

TEST(PendingCalls, CountsTheBytesThatTheStreamHasNotAnswered) {
  PendingCalls calls("ab");
  PendingCall* const call = calls.Add(PendingOf(3, 100));
  EXPECT_EQ(calls.bytes_in_flight(), 0u);
  calls.NoteSent(*call, 0, kBegin);
  calls.NoteSent(*call, 1, kBegin);
  calls.NoteSent(*call, 1, kBegin);
  EXPECT_EQ(calls.bytes_in_flight(), 200u);
  calls.NoteInStream({call, 0}, 7, kBegin);
  calls.NoteInStream({call, 0}, 7, kBegin);
  EXPECT_EQ(calls.bytes_in_flight(), 100u);
  EXPECT_FALSE(calls.NoteApplied({call, 0}, Applied(7), 7, kBegin));
  EXPECT_EQ(calls.bytes_in_flight(), 100u);
  calls.Take(*call);
  EXPECT_EQ(calls.bytes_in_flight(), 0u);
  EXPECT_TRUE(calls.empty());
}

TEST(PendingCalls, KnowWhenAllWritesOfACallAreApplied) {
  PendingCalls calls("ab");
  PendingCall* const call = calls.Add(PendingOf(2));
  calls.NoteSent(*call, 0, kBegin);
  calls.NoteSent(*call, 1, kBegin);
  EXPECT_FALSE(calls.NoteApplied({call, 1}, Applied(9), 9, kBegin));
  EXPECT_FALSE(calls.NoteApplied({call, 1}, Applied(9), 9, kBegin));
  EXPECT_EQ(call->durable, absl::InfiniteFuture());
  const absl::Time later = kBegin + absl::Seconds(1);
  EXPECT_TRUE(calls.NoteApplied({call, 0}, {.outcome = store::WriteResult::Outcome::kStale, .sequence = 0}, 10, later));
  EXPECT_EQ(call->durable, later);
  EXPECT_EQ(call->writes[0].sequence, 10u);
}

TEST(PendingCalls, SendAgainWhatWasNotAnswered) {
  PendingCalls calls("ab");
  PendingCall* const call = calls.Add(PendingOf(3));
  const absl::Time later = kBegin + absl::Seconds(1);
  EXPECT_EQ(FindUnanswered(*call, later), std::nullopt);
  calls.NoteSent(*call, 0, kBegin);
  calls.NoteSent(*call, 1, kBegin);
  EXPECT_EQ(FindUnanswered(*call, kBegin), std::nullopt);
  EXPECT_EQ(FindUnanswered(*call, later), 0u);
  calls.NoteInStream({call, 0}, 5, kBegin);
  EXPECT_EQ(FindUnanswered(*call, later), 1u);
  calls.NoteSent(*call, 1, later);
  EXPECT_EQ(FindUnanswered(*call, later), std::nullopt);
}

TEST(PendingCalls, KnowWhichIdsAreUnderWay) {
  PendingCalls calls("ab");
  PendingCall* const first = calls.Add(PendingOf(2));
  PendingCall* const second = calls.Add(PendingOf(2));  // of the same ids
  EXPECT_FALSE(calls.HasUnansweredBefore(*second, 0));
  calls.NoteSent(*first, 0, kBegin);
  EXPECT_TRUE(calls.HasUnansweredBefore(*second, 0));
  EXPECT_FALSE(calls.HasUnansweredBefore(*second, 1));
  calls.NoteInStream({first, 0}, 5, kBegin);
  EXPECT_FALSE(calls.HasUnansweredBefore(*second, 0));
  calls.NoteSent(*first, 1, kBegin);
  EXPECT_TRUE(calls.HasUnansweredBefore(*second, 1));
  calls.Take(*first);
  EXPECT_FALSE(calls.HasUnansweredBefore(*second, 1));
}

}  // namespace
}  // namespace maxsim::live
