// Tests a write whose message reaches the stream only after its call has failed. The client may have written the
// document again by then, so no server may apply the late message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "base/monotonic_clock.h"
#include "client/status.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

using ::testing::HasSubstr;

class StreamLateWritesTest : public StreamedTest {
 protected:
  // Server a deletes the document x for a caller with this deadline.
  Answer DeleteUntil(absl::Time deadline) {
    auto answer = std::make_shared<std::promise<Answer>>();
    std::future<Answer> future = answer->get_future();
    a_.live().Submit(List(Delete("x")), {.deadline = deadline},
                     [answer](Answer results) { answer->set_value(std::move(results)); });
    return future.get();
  }
  // The delete of x has failed. Writes x again, and only then lets the messages of the delete arrive in the stream.
  void ExpectThatTheDeleteComesTooLate() {
    server_.Set({});
    EXPECT_EQ(b_.MustWrite(List(Upsert("x", 2))).sequence, 2u);
    server_.Release();
    ASSERT_EQ(server_.num_messages(), 3u) << "the stream has the delete, once";
    ASSERT_TRUE(a_.Reaches(3) && b_.Reaches(3));
    EXPECT_EQ(a_.Now(), (Documents{{"x", 2}}));
    EXPECT_EQ(b_.Now(), (Documents{{"x", 2}}));
    b_.Open();
    ASSERT_TRUE(LiveIsConnected(b_));
    EXPECT_EQ(b_.Now(), (Documents{{"x", 2}})) << "after a restart";
    EXPECT_EQ(b_.MustWrite(List(Delete("x"))).sequence, 4u);
    EXPECT_EQ(b_.Now(), Documents());
  }
};

TEST_F(StreamLateWritesTest, AWriteThatFailedAtTheTimeLimitDoesNotUndoALaterOne) {
  a_.options_.nats.timeout = absl::Seconds(2);
  OpenBoth();
  b_.MustWrite(List(Upsert("x", 1)));
  ASSERT_TRUE(a_.Reaches(1));
  server_.Set({.hold_publishes = true});
  const absl::Status failed = a_.Write(List(Delete("x"))).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("nats.timeout"));
  ExpectThatTheDeleteComesTooLate();
}

TEST_F(StreamLateWritesTest, AWriteThatFailedAtItsCallersDeadlineDoesNotUndoALaterOne) {
  OpenBoth();
  b_.MustWrite(List(Upsert("x", 1)));
  ASSERT_TRUE(a_.Reaches(1));
  server_.Set({.hold_publishes = true});
  const absl::Status failed = DeleteUntil(MonotonicNow() + absl::Seconds(2)).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("before the call's deadline"));
  ExpectThatTheDeleteComesTooLate();
}

// The clock of NATS may have jumped ahead, or another server with a different clock may have become the stream's
// leader.
TEST_F(StreamLateWritesTest, ACallWhoseMessageIsLateMayBeTriedAgain) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  server_.Set({.takes_late = true});
  const absl::Status failed = a_.Write(List(Upsert("x", 2))).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_TRUE(client::IsNothingWritten(failed));
  EXPECT_TRUE(client::RetryAfter(failed).has_value());
  const absl::Status several = a_.Write(List(Upsert("x", 3), Upsert("y", 3))).status();
  EXPECT_TRUE(absl::IsUnavailable(several)) << several;
  EXPECT_FALSE(client::IsNothingWritten(several)) << "the server has not seen yet what became of the other document";
  server_.Set({});
  a_.MustWrite(List(Upsert("x", 4)));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 4}}));
}

}  // namespace
}  // namespace maxsim::live
