// Tests two servers of one collection. A fake stream orders their writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "server/live/stream/stream_message.h"
#include "server/observability/logging.h"
#include "spdlog/sinks/ostream_sink.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StreamedCollectionTest : public StreamedTest {};

TEST_F(StreamedCollectionTest, SkipsWhatNobodyCanApply) {
  OpenBoth();
  server_.Add("nonsense");
  server_.Add("");
  const MessageRules other = {
      .format = {.id_type = collection::IdType::kInt64, .storage = ScalarType::kF16, .dim = kDim, .rotation_seed = 0},
      .slots = {}};
  server_.Add(EncodeMessage(Delete(""), other));
  EXPECT_EQ(a_.MustWrite(List(Upsert("x", 1))).sequence, 4u);
  ASSERT_TRUE(b_.Reaches(4));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}}));
}

// Servers of a later version apply the message. A server that skipped it would hold other documents than they do.
TEST_F(StreamedCollectionTest, StopsBeforeAMessageOfALaterVersion) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1)));
  const MessageRules rules = {
      .format = {.id_type = collection::IdType::kString, .storage = ScalarType::kF16, .dim = kDim, .rotation_seed = 0},
      .slots = {}};
  std::string later = EncodeMessage(Upsert("y", 2), rules);
  later[0] = 2;
  server_.Add(later);
  server_.Add(EncodeMessage(Upsert("z", 3), rules));
  const absl::Status status = WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the message of sequence 2 has format version 2; this version reads 1"));
  EXPECT_EQ(a_.state().sequence, 1u);
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}})) << "neither the message nor the next one is applied";
  b_.Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition)));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}})) << "messages before it are applied";
}

// If each attempt made the server seem connected, a router would take it for healthy, and the log file would fill.
TEST_F(StreamedCollectionTest, DoesNotSeemConnectedWheneverItTriesAMessageOfALaterVersionAgain) {
  std::ostringstream lines;
  const std::shared_ptr<spdlog::logger> logger_before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  spdlog::default_logger()->set_formatter(log::TextFormatter());
  const MessageRules rules = {
      .format = {.id_type = collection::IdType::kString, .storage = ScalarType::kF16, .dim = kDim, .rotation_seed = 0},
      .slots = {}};
  server_.Add(EncodeMessage(Upsert("x", 1), rules));
  std::string later = EncodeMessage(Upsert("y", 2), rules);
  later[0] = 2;
  server_.Add(later);
  // In the second round, the collection's log already has the message before. So this process does not apply that
  // message.
  for (int round = 0; round < 2; ++round) {
    a_.Open();
    EXPECT_TRUE(absl::IsFailedPrecondition(WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition)));
    const uint64_t num_before = server_.num_subscribes();
    EXPECT_TRUE(test::Eventually([&] {
      EXPECT_FALSE(a_.state().stream->connected);
      EXPECT_TRUE(absl::IsFailedPrecondition(a_.state().status)) << a_.state().status;
      return server_.num_subscribes() >= num_before + 3;
    }));
    EXPECT_EQ(a_.state().sequence, 1u);
    a_.Close();
  }
  spdlog::set_default_logger(logger_before);
  const auto count = [text = lines.str()](std::string_view event) {
    int found = 0;
    for (size_t at = text.find(event); at != std::string::npos; at = text.find(event, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("stream_followed"), 2) << lines.str();
  EXPECT_EQ(count("stream_not_followed"), 2) << lines.str();
}

TEST_F(StreamedCollectionTest, CatchesUpWithWhatWasWrittenWhileItWasClosed) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 1)));
  ASSERT_TRUE(b_.Reaches(2));
  b_.Close();
  for (int value = 2; value < 40; ++value) a_.MustWrite(List(Upsert("x", value)));
  b_.Open();
  ASSERT_TRUE(b_.Reaches(40));
  EXPECT_EQ(b_.Now(), a_.Now());
}

TEST_F(StreamedCollectionTest, WritesWhatAnswersWereLostOfOnce) {
  OpenBoth();
  server_.Set({.lose_answers = true});
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2)))), "AA");
  EXPECT_EQ(server_.num_messages(), 2u);
}

TEST_F(StreamedCollectionTest, SendsWhatWasLostAgain) {
  a_.options_.nats.timeout = absl::Seconds(4);
  OpenBoth();
  server_.Set({.lose_publishes = 2});
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 1), Upsert("x", 2)))), "AA");
  EXPECT_EQ(a_.Now(), (Documents{{"x", 2}}));
  EXPECT_EQ(server_.num_messages(), 2u);
  EXPECT_GE(server_.num_publishes(), 4u);
}

TEST_F(StreamedCollectionTest, NeverWritesAnEarlierWriteOfAnIdBehindALaterOne) {
  a_.options_.nats.timeout = absl::Seconds(4);
  OpenBoth();
  server_.Set({.lose_publishes = 1});
  std::future<Answer> first = a_.Send(List(Upsert("x", 1), Upsert("x", 2), Upsert("y", 2)));
  std::future<Answer> second = a_.Send(List(Upsert("x", 3), Upsert("z", 3)));
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(server_.num_messages(), 5u);
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}, {"y", 2}, {"z", 3}}));
}

TEST_F(StreamedCollectionTest, TakesNoWritesWhileTheStreamIsAwayAndGoesOnAfterwards) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  a_.options_.nats.timeout = absl::Milliseconds(300);
  a_.Open();
  server_.Set({.away = true});
  const Answer answer = a_.Write(List(Upsert("x", 2)));
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}}));
  EXPECT_FALSE(a_.state().stream->connected);
  EXPECT_THAT(std::string(a_.state().status.message()), HasSubstr("the fake stream does not answer"));
  server_.Set({});
  ASSERT_TRUE(LiveIsConnected(a_) && LiveIsConnected(b_));
  const uint64_t sequence = a_.MustWrite(List(Upsert("x", 3))).sequence;
  EXPECT_EQ(sequence, server_.num_messages());
  ASSERT_TRUE(b_.Reaches(sequence));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 3}}));
}

TEST_F(StreamedCollectionTest, IsServedWhileTheStreamIsAwayFromTheBeginning) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1)));
  server_.Set({.away = true});
  a_.Open();
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}}));
  server_.Set({});
  ASSERT_TRUE(LiveIsConnected(a_));
  EXPECT_EQ(a_.MustWrite(List(Upsert("x", 2))).sequence, 2u);
}

TEST_F(StreamedCollectionTest, SaysOfAWriteThatTheStreamRefusedThatItIsNotThere) {
  OpenBoth();
  server_.Set({.refuse = true});
  const Answer answer = a_.Write(List(Upsert("x", 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << answer.status();
  EXPECT_EQ(server_.num_messages(), 0u);
}

TEST_F(StreamedCollectionTest, RefusesAMessageThatIsTooLargeWithBothNumbers) {
  OpenBoth();
  const MessageRules rules = {.format = {.storage = ScalarType::kF16, .dim = kDim}, .slots = {}};
  const auto size = EncodeMessage(Upsert("x", 4), rules).size();
  server_.Set({.max_message_bytes = static_cast<int64_t>(size)});
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 4)))), "A");
  server_.Set({.max_message_bytes = static_cast<int64_t>(size) - 1});
  const Answer answer = a_.Write(List(Upsert("y", 1), Upsert("x", 4)));
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("documents[1]"), HasSubstr(absl::StrCat(size)), HasSubstr(absl::StrCat(size - 1))));
  EXPECT_THAT(answer.status().ToString(), Not(HasSubstr(server_.Connect()->server()))) << "tenants see this error";
  EXPECT_EQ(server_.num_messages(), 1u);
}

TEST_F(StreamedCollectionTest, RefusesAStreamThatWasMadeAnewAndNamesBoth) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  server_.MakeAnew();
  const absl::Status status = WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1970-01-01T00:00:00.000001Z"), HasSubstr("1970-01-01T00:00:10.000001Z")));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(a_.Write(List(Upsert("x", 2))).status()));
  EXPECT_EQ(server_.num_messages(), 0u);
}

TEST_F(StreamedCollectionTest, FollowsAStreamThatSeveralServersAskedToCreate) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  server_.ReportAnotherCreation();
  a_.Close();
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 2)))), "A");
  EXPECT_EQ(a_.Now(), (Documents{{"x", 2}}));
}

TEST_F(StreamedCollectionTest, RefusesAStreamThatHasLostMessages) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2)));
  a_.Close();
  server_.LoseBehind(1);
  a_.Open();
  const absl::Status status = WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("up to sequence 2"), HasSubstr("ends with sequence 1")));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}, {"y", 2}}));
}

TEST_F(StreamedCollectionTest, SaysThatItNeedsASnapshotWhereTheStreamHasDroppedWhatItLacks) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  ASSERT_TRUE(b_.Reaches(1));
  b_.Close();
  a_.MustWrite(List(Upsert("x", 2), Upsert("y", 2)));
  server_.Drop(2);
  b_.Open();
  const absl::Status status = WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("up to sequence 1"), HasSubstr("begins with sequence 3"), HasSubstr("snapshot")));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}}));
  // A snapshot of server a contains the writes that the stream has dropped, so server c can start from it.
  const auto sequence = a_.live().SnapshotTo(folder_ / "c", nullptr);
  ASSERT_EQ(sequence.value_or(0), 3u);
  Replica c(backend_.get(), folder_ / "c", &server_);
  c.Open();
  ASSERT_TRUE(LiveIsConnected(c));
  EXPECT_EQ(c.MustWrite(List(Upsert("z", 3))).sequence, 4u);
  EXPECT_EQ(c.Now(), (Documents{{"x", 2}, {"y", 2}, {"z", 3}}));
}

TEST_F(StreamedCollectionTest, StopsBeforeAGapThatLiesWithinABatch) {
  OpenBoth();
  b_.Close();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2), Upsert("z", 3)));
  server_.Delete(2);
  b_.Open();
  const absl::Status status = WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("up to sequence 1"), HasSubstr("next one has 3")));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}})) << "z is not taken for the write of sequence 2";
}

TEST_F(StreamedCollectionTest, IsNotOpenedWithALogOfTheOtherKind) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1)));
  a_.options_.log = LogKind::kLocal;
  const absl::Status local = a_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(local)) << local;
  EXPECT_THAT(std::string(local.message()), AllOf(HasSubstr("stream fake"), HasSubstr("live.log is local")));
  b_.options_.log = LogKind::kLocal;
  b_.Open();
  b_.MustWrite(List(Upsert("x", 1)));
  b_.options_.log = LogKind::kNats;
  const absl::Status streamed = b_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(streamed)) << streamed;
  EXPECT_THAT(std::string(streamed.message()), AllOf(HasSubstr("up to sequence 1"), HasSubstr("live.log is nats")));
}

TEST_F(StreamedCollectionTest, DoesNotBeginALogAnewForShardsThatHoldWrites) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1, 7)));
  bool changed = false;
  ASSERT_TRUE(a_.live().Compact(nullptr, &changed).ok());
  a_.Close();
  std::filesystem::remove_all(folder_ / "a/log");
  const absl::Status status = a_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to sequence 1"));
}

TEST_F(StreamedCollectionTest, WaitsForACompactionWhereSegmentsAreFull) {
  a_.options_.max_segment_bytes = 8192;
  a_.options_.compact = false;
  OpenBoth();
  // Server b accepts all 200 writes. Server a gets them from the stream and is full before the end, because only its
  // segments have this small limit.
  Documents expected;
  for (int value = 0; value < 200; ++value) {
    const std::string id = absl::StrCat("id", value);
    expected[id] = value;
    b_.MustWrite(List(Upsert(id, value)));
  }
  const absl::Status full = WaitForRefusal(a_, absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  const uint64_t before = server_.num_publishes();
  const Answer refused = a_.Write(List(Upsert("x", 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(server_.num_publishes(), before);
  ASSERT_TRUE(test::Eventually([&] {
    bool changed = false;
    EXPECT_TRUE(a_.live().Compact(nullptr, &changed).ok());
    return a_.state().sequence >= 200;
  }));
  ASSERT_TRUE(a_.Reaches(200));
  EXPECT_EQ(a_.Now(), expected);
  // The last of the 200 writes may have filled a's segments again, so another compaction must come before the next
  // write.
  bool changed = false;
  ASSERT_TRUE(a_.live().Compact(nullptr, &changed).ok());
  EXPECT_EQ(a_.MustWrite(List(Upsert("id0", 5))).sequence, 201u);
}

TEST_F(StreamedCollectionTest, AnswersWhatItAcceptedBeforeItStops) {
  OpenBoth();
  std::vector<std::future<Answer>> answers;
  for (int value = 0; value < 50; ++value) answers.push_back(a_.Send(List(Upsert("x", value))));
  a_.Close();
  for (std::future<Answer>& answer : answers) EXPECT_TRUE(answer.get().ok());
  ASSERT_TRUE(b_.Reaches(50));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 49}}));
}

TEST_F(StreamedCollectionTest, RefusesCallsThatWaitTooLongBehindASlowStream) {
  a_.options_.segment_bytes = 128 << 20;
  a_.options_.max_queue_time = absl::Milliseconds(200);
  a_.options_.nats.timeout = absl::Seconds(20);
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  server_.Set({.lose_publishes = 1'000'000, .max_message_bytes = 2 << 20});
  // At most 16 MiB may be sent without an answer from the stream. So of these 40 writes of 1 MiB, the later ones wait.
  std::vector<std::future<Answer>> answers;
  for (int number = 0; number < 40; ++number) {
    store::Write write = Upsert(absl::StrCat("x", number), 1);
    write.payload = absl::StrCat("{\"text\":\"", std::string(1 << 20, 'a'), "\"}");
    answers.push_back(a_.Send(List(std::move(write))));
  }
  const Answer last = answers.back().get();
  EXPECT_TRUE(absl::IsResourceExhausted(last.status())) << last.status();
  EXPECT_THAT(std::string(last.status().message()), HasSubstr("live.max_queue_time"));
  EXPECT_TRUE(client::IsNothingWritten(last.status()));
  answers.pop_back();
  server_.Set({.max_message_bytes = 2 << 20});
  size_t num_written = 0;
  for (std::future<Answer>& answer : answers) {
    const Answer one = answer.get();
    num_written += one.ok() ? 1 : 0;
    EXPECT_TRUE(one.ok() || absl::IsResourceExhausted(one.status())) << one.status();
  }
  EXPECT_EQ(server_.num_messages(), num_written) << "nothing of a refused call";
  EXPECT_TRUE(a_.Write(List(Upsert("y", 1))).ok());
}

TEST_F(StreamedCollectionTest, DoesNotFollowWithALogThatForgetsOtherVersions) {
  std::filesystem::remove_all(folder_ / "b");
  CreateWithMemory(folder_ / "b", 300);
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1)));
  b_.Open();
  const absl::Status status = WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("for 300 bytes"), HasSubstr(absl::StrCat(collection::kRememberedBytes))));
  EXPECT_EQ(b_.Now(), Documents());
  EXPECT_TRUE(absl::IsFailedPrecondition(b_.Write(List(Upsert("x", 2))).status()));
}

}  // namespace
}  // namespace maxsim::live
