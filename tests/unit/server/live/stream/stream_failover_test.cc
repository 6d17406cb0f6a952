// Tests a failover of NATS to another leader, which for some seconds may report fewer messages than the stream has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "client/status.h"
#include "server/live/stream/stream_doubt.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);
const absl::Time kFirstLook = absl::FromUnixSeconds(1'000'000);

TEST(StreamDoubtTest, BelievesAFindingOnceEveryLookHadOneForItsPatience) {
  const absl::Status finding = absl::FailedPreconditionError("messages are lost");
  StreamDoubt doubt(kPatience);
  const absl::Status first = doubt.Judge(finding, kFirstLook);
  EXPECT_TRUE(absl::IsUnavailable(first)) << first;
  EXPECT_THAT(std::string(first.message()), HasSubstr("messages are lost"));
  EXPECT_TRUE(absl::IsUnavailable(doubt.Judge(finding, kFirstLook + kPatience - absl::Nanoseconds(1))));
  EXPECT_EQ(doubt.Judge(finding, kFirstLook + kPatience), finding);
  EXPECT_EQ(doubt.Judge(finding, kFirstLook + 2 * kPatience), finding);
  doubt.Clear();
  EXPECT_TRUE(absl::IsUnavailable(doubt.Judge(finding, kFirstLook + 3 * kPatience)));
  EXPECT_EQ(doubt.Judge(finding, kFirstLook + 4 * kPatience), finding);
}

TEST(StreamDoubtTest, WithoutPatienceBelievesAtOnce) {
  const absl::Status finding = absl::FailedPreconditionError("messages are lost");
  EXPECT_EQ(StreamDoubt(absl::ZeroDuration()).Judge(finding, kFirstLook), finding);
}

class StreamFailoverTest : public StreamedTest {
 protected:
  // Server a loses its connection, and then finds the stream with these faults. Returns the status with which it
  // refuses writes, whose message contains `reason`.
  absl::Status FailOver(const FakeStreamServer::Faults& faults, const std::string& reason) {
    server_.Set({.away = true});
    EXPECT_TRUE(test::Eventually([&] { return !a_.state().stream->connected; }));
    server_.Set(faults);
    EXPECT_TRUE(test::Eventually([&] { return a_.state().status.message().find(reason) != std::string::npos; }));
    return a_.state().status;
  }
};

TEST_F(StreamFailoverTest, AStreamThatLooksTooShortForAWhileIsNotSaidToHaveLostMessages) {
  a_.options_.stream_patience = absl::Hours(1);
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2), Upsert("z", 3)));
  const absl::Status status = FailOver({.hide_messages = 2}, "ends with sequence 1");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  // A write waits for the stream, and is written once the new leader has caught up.
  std::future<Answer> waiting = a_.Send(List(Upsert("x", 4)));
  server_.Set({});
  const Answer answer = waiting.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->sequence, 4u);
  EXPECT_EQ(a_.Now(), (Documents{{"x", 4}, {"y", 2}, {"z", 3}}));
}

TEST_F(StreamFailoverTest, AWriteThatDoesNotOutwaitTheFailoverMayBeTriedAgain) {
  a_.options_.stream_patience = absl::Hours(1);
  a_.options_.nats.timeout = absl::Milliseconds(300);
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  EXPECT_TRUE(absl::IsUnavailable(FailOver({.hide_messages = 1}, "ends with sequence 0")));
  const absl::Status refused = a_.Write(List(Upsert("x", 2))).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(client::RetryAfter(refused).has_value());
  EXPECT_TRUE(client::IsNothingWritten(refused));
}

TEST_F(StreamFailoverTest, AStreamThatIsNotFoundForAWhileIsNotSaidToBeGone) {
  a_.options_.stream_patience = absl::Hours(1);
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  const absl::Status status = FailOver({.hide_stream = true}, "has no stream");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  server_.Set({});
  ASSERT_TRUE(LiveIsConnected(a_));
  EXPECT_EQ(a_.MustWrite(List(Upsert("x", 2))).sequence, 2u);
}

// While a server waits for lost messages to come back, other servers may write. Their messages get the lost sequences,
// so that the stream is as long as before. The server must notice that.
TEST_F(StreamFailoverTest, AStreamThatGaveLostSequencesToOtherMessagesIsRefused) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2), Upsert("z", 3)));
  b_.Close();
  server_.Set({.away = true});
  ASSERT_TRUE(test::Eventually([&] { return !a_.state().stream->connected; }));
  server_.LoseBehind(1);
  for (int n = 0; n < 5; ++n) server_.Add("another message");
  server_.Set({});
  const absl::Status status = WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("message of sequence 3"));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}, {"y", 2}, {"z", 3}})) << "searches go on";
  EXPECT_EQ(a_.state().sequence, 3u);
}

}  // namespace
}  // namespace maxsim::live
