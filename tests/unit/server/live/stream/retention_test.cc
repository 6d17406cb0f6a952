// The warning before a stream drops messages that a server has not applied.
#include "server/live/stream/retention.h"

#include <memory>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/live/stream/nats_setup.h"
#include "server/observability/logging.h"
#include "spdlog/sinks/ostream_sink.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

// A stream that holds the messages 101 to 200.
StreamInfo Stream(const StreamRetention& retention) {
  return {
      .stream = {.name = "s", .created_ns = 1}, .first_sequence = 101, .last_sequence = 200, .retention = retention};
}

TEST(RetentionMarginTest, AStreamWithoutLimitsLeavesEverything) {
  for (const uint64_t applied : {100u, 150u, 200u, 201u}) EXPECT_EQ(RetentionMargin(Stream({}), applied), 1);
}

TEST(RetentionMarginTest, NothingIsLeftOnceAMissingMessageIsGone) {
  EXPECT_EQ(RetentionMargin(Stream({}), 99), 0);
  EXPECT_EQ(RetentionMargin(Stream({}), 0), 0);
  EXPECT_EQ(RetentionMargin(Stream({.max_messages = 1000}), 99), 0);
}

TEST(RetentionMarginTest, AServerThatHasAppliedEverythingKeepsAllOfIt) {
  const StreamInfo stream = Stream({.max_age = absl::Hours(1),
                                    .max_messages = 100,
                                    .max_bytes = 100,
                                    .num_bytes = 100,
                                    .oldest_age = absl::Hours(1),
                                    .newest_age = absl::Hours(1)});
  EXPECT_EQ(RetentionMargin(stream, 200), 1);
  EXPECT_EQ(RetentionMargin(stream, 250), 1) << "after a failover the stream may look too short";
  StreamInfo empty = stream;
  empty.first_sequence = 201;
  EXPECT_EQ(RetentionMargin(empty, 200), 1);
}

TEST(RetentionMarginTest, TheNumberOfMissingMessagesCounts) {
  const StreamInfo stream = Stream({.max_messages = 200});
  EXPECT_DOUBLE_EQ(RetentionMargin(stream, 199), 1 - 1.0 / 200);
  EXPECT_DOUBLE_EQ(RetentionMargin(stream, 150), 0.75);
  EXPECT_DOUBLE_EQ(RetentionMargin(stream, 100), 0.5);
  EXPECT_EQ(RetentionMargin(Stream({.max_messages = 100}), 100), 0) << "the next message takes its place";
  EXPECT_EQ(RetentionMargin(Stream({.max_messages = 50}), 100), 0) << "the limit was lowered just now";
}

TEST(RetentionMarginTest, TheSizeOfMissingMessagesIsTheirShareOfTheStream) {
  const StreamInfo stream = Stream({.max_bytes = 4000, .num_bytes = 2000});
  EXPECT_DOUBLE_EQ(RetentionMargin(stream, 150), 0.75);
  EXPECT_DOUBLE_EQ(RetentionMargin(stream, 100), 0.5);
}

TEST(RetentionMarginTest, TheAgeOfTheFirstMissingMessageIsEstimated) {
  const StreamInfo stream =
      Stream({.max_age = absl::Hours(200), .oldest_age = absl::Hours(109), .newest_age = absl::Hours(10)});
  EXPECT_NEAR(RetentionMargin(stream, 199), 1 - 10.0 / 200, 1e-9);   // the last message is missing
  EXPECT_NEAR(RetentionMargin(stream, 100), 1 - 109.0 / 200, 1e-9);  // all are missing
  EXPECT_NEAR(RetentionMargin(stream, 150), 1 - 59.0 / 200, 1e-9);
  StreamInfo one = stream;
  one.first_sequence = 200;
  EXPECT_NEAR(RetentionMargin(one, 199), 1 - 10.0 / 200, 1e-9);
}

TEST(RetentionMarginTest, TheTightestLimitCounts) {
  EXPECT_NEAR(RetentionMargin(Stream({.max_age = absl::Hours(10),
                                      .max_messages = 1000,
                                      .max_bytes = 1000,
                                      .num_bytes = 100,
                                      .oldest_age = absl::Hours(8),
                                      .newest_age = absl::Hours(8)}),
                              100),
              0.2, 1e-9);
}

class RetentionWatchTest : public testing::Test {
 protected:
  RetentionWatchTest() : logger_before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
    spdlog::default_logger()->set_formatter(log::TextFormatter());
  }
  ~RetentionWatchTest() override { spdlog::set_default_logger(logger_before_); }

  size_t NumWarnings() const {
    const std::string lines = lines_.str();
    size_t count = 0;
    for (size_t at = lines.find("stream_retention_short"); at != std::string::npos;
         at = lines.find("stream_retention_short", at + 1)) {
      ++count;
    }
    return count;
  }

  const std::shared_ptr<spdlog::logger> logger_before_;
  std::ostringstream lines_;
  RetentionWatch watch_{"docs"};
};

TEST_F(RetentionWatchTest, WarnsOnceUntilThereIsAmpleRoomAgain) {
  EXPECT_EQ(watch_.margin(kNow), 1);
  const StreamInfo stream = Stream({.max_messages = 200});
  watch_.Note(stream, 100, kNow);  // 0.5
  EXPECT_EQ(NumWarnings(), 0u);
  EXPECT_DOUBLE_EQ(watch_.margin(kNow), 0.5);
  StreamInfo longer = stream;
  longer.last_sequence = 201;
  watch_.Note(longer, 100, kNow);
  EXPECT_EQ(NumWarnings(), 1u);
  EXPECT_THAT(lines_.str(), HasSubstr("name=docs"));
  EXPECT_THAT(lines_.str(), HasSubstr("sequence=100"));
  watch_.Note(longer, 100, kNow);
  watch_.Note(longer, 150, kNow);  // 0.745
  watch_.Note(longer, 100, kNow);
  EXPECT_EQ(NumWarnings(), 1u);
  watch_.Note(longer, 151, kNow);  // 0.75
  watch_.Note(longer, 100, kNow);
  EXPECT_EQ(NumWarnings(), 2u);
}

TEST_F(RetentionWatchTest, WhileTheStreamCannotBeFollowedTheMarginShrinks) {
  watch_.Note(Stream({.max_age = absl::Hours(100)}), 200, kNow);
  EXPECT_EQ(watch_.margin(kNow + absl::Hours(60)), 1) << "it is followed";
  watch_.NoteLost(kNow + absl::Hours(25));
  EXPECT_DOUBLE_EQ(watch_.margin(kNow + absl::Hours(25)), 0.75);
  EXPECT_EQ(NumWarnings(), 0u);
  watch_.NoteLost(kNow + absl::Hours(51));
  watch_.NoteLost(kNow + absl::Hours(52));
  EXPECT_EQ(NumWarnings(), 1u);
  EXPECT_EQ(watch_.margin(kNow + absl::Hours(1000)), 0);
  watch_.Note(Stream({.max_age = absl::Hours(100)}), 200, kNow + absl::Hours(60));
  EXPECT_EQ(watch_.margin(kNow + absl::Hours(60)), 1);
}

TEST_F(RetentionWatchTest, AStreamWithoutAMaximumAgeIsNotLostByTime) {
  watch_.NoteLost(kNow);
  EXPECT_EQ(watch_.margin(kNow + absl::Hours(1000)), 1) << "nothing is known yet";
  watch_.Note(Stream({}), 200, kNow);
  watch_.NoteLost(kNow);
  EXPECT_EQ(watch_.margin(kNow + absl::Hours(1000)), 1);
}

TEST_F(RetentionWatchTest, ALookIsDueAfterTheInterval) {
  EXPECT_TRUE(watch_.IsDue(kNow));
  watch_.Note(Stream({}), 200, kNow);
  EXPECT_FALSE(watch_.IsDue(kNow + RetentionWatch::kInterval - absl::Milliseconds(1)));
  EXPECT_TRUE(watch_.IsDue(kNow + RetentionWatch::kInterval));
  watch_.Postpone(kNow + RetentionWatch::kInterval);
  EXPECT_FALSE(watch_.IsDue(kNow + RetentionWatch::kInterval));
}

TEST(RetentionOfTest, OnlyAStreamThatDropsOldMessagesHasLimitsOfMessagesAndBytes) {
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  config.MaxAge = absl::ToInt64Nanoseconds(absl::Hours(5));
  config.MaxMsgs = 70;
  config.MaxBytes = 9000;
  config.Discard = js_DiscardNew;
  jsStreamInfo info = {};
  info.Config = &config;
  info.State.Msgs = 3;
  info.State.Bytes = 600;
  info.State.FirstTime = absl::ToUnixNanos(kNow - absl::Hours(4));
  info.State.LastTime = absl::ToUnixNanos(kNow - absl::Hours(1));
  StreamRetention retention = nats::RetentionOf(info, kNow);
  EXPECT_EQ(retention.max_age, absl::Hours(5));
  EXPECT_EQ(retention.max_messages, 0u);
  EXPECT_EQ(retention.max_bytes, 0u);
  EXPECT_EQ(retention.num_bytes, 600u);
  EXPECT_EQ(retention.oldest_age, absl::Hours(4));
  EXPECT_EQ(retention.newest_age, absl::Hours(1));
  config.Discard = js_DiscardOld;
  retention = nats::RetentionOf(info, kNow);
  EXPECT_EQ(retention.max_messages, 70u);
  EXPECT_EQ(retention.max_bytes, 9000u);
  config.MaxMsgs = -1;  // as NATS says that there is no limit
  config.MaxBytes = -1;
  config.MaxAge = 0;
  info.State.Msgs = 0;
  retention = nats::RetentionOf(info, kNow - absl::Hours(2));
  EXPECT_EQ(retention.max_age, absl::ZeroDuration());
  EXPECT_EQ(retention.max_messages, 0u);
  EXPECT_EQ(retention.max_bytes, 0u);
  EXPECT_EQ(retention.oldest_age, absl::ZeroDuration()) << "an empty stream has no messages";
  EXPECT_EQ(retention.newest_age, absl::ZeroDuration());
}

class CollectionRetentionTest : public StreamedTest {};

TEST_F(CollectionRetentionTest, ACollectionKnowsTheMarginWhenItBeginsToFollow) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  for (int i = 0; i < 4; ++i) a_.MustWrite(List(Upsert("x", i + 1)));
  EXPECT_EQ(a_.state().stream->retention_margin, 1);
  a_.Close();
  server_.Drop(2);
  b_.Open();
  // Server b has applied nothing, and the messages 1 and 2 are gone.
  ASSERT_TRUE(absl::IsFailedPrecondition(WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition)));
  EXPECT_EQ(b_.state().stream->retention_margin, 0);
}

TEST_F(CollectionRetentionTest, ACollectionThatIsCutOffLosesMarginByTheStreamsAge) {
  server_.Set({.retention = {.max_age = absl::Milliseconds(200)}});
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  EXPECT_EQ(a_.state().stream->retention_margin, 1);
  server_.Set({.away = true});
  EXPECT_TRUE(test::Eventually([&] { return a_.state().stream->retention_margin == 0; }));
  server_.Set({.retention = {.max_age = absl::Milliseconds(200)}});
  EXPECT_TRUE(test::Eventually([&] { return a_.state().stream->retention_margin == 1; }));
}

}  // namespace
}  // namespace maxsim::live
