// Tests encoders that are dead or slow, or send invalid answers. Each call must get one clear error of bounded size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "client/status.h"
#include "tests/unit/server/encoder/encoder_fixture.h"

namespace maxsim::encoder {
namespace {

using std::chrono::milliseconds;
using test::FakeCall;
using test::FakeEncoder;
using test::FakeReply;
using ::testing::HasSubstr;

FakeEncoder::Handler Always(FakeReply reply) {
  return [reply](const FakeCall&) { return reply; };
}

absl::Status StatusWith(FakeReply reply, const std::function<void(HttpEncoderOptions&)>& change = nullptr) {
  FakeEncoder fake(Always(std::move(reply)));
  HttpEncoderOptions options = OptionsFor(fake);
  if (change != nullptr) change(options);
  return EncodeNow(*MakeEncoder(options), Queries({"one"})).status();
}

TEST(EncoderFailuresTest, ADeadEncoderIsUnavailable) {
  HttpEncoderOptions options;
  {
    FakeEncoder fake(Right);
    options = OptionsFor(fake);
  }
  const absl::Status status = EncodeNow(*MakeEncoder(options), Queries({"one"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("cannot connect"));
  EXPECT_THAT(status.message(), HasSubstr(options.url));
}

TEST(EncoderFailuresTest, ASlowEncoderIsUnavailableAfterTheTimeout) {
  const absl::Status status = StatusWith(
      {.delay = std::chrono::hours(1)}, [](HttpEncoderOptions& options) { options.timeout = absl::Milliseconds(100); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("no answer within 100ms"));
}

TEST(EncoderFailuresTest, TheDeadlineOfARequestEndsItBeforeTheAnswer) {
  std::promise<void> open;
  FakeEncoder fake([opened = open.get_future().share()](const FakeCall& call) {
    opened.wait();
    return Right(call);
  });
  const auto encoder = MakeEncoder(OptionsFor(fake));
  PendingEncode patient(*encoder, Queries({"one"}));
  const absl::Status status = EncodeNow(*encoder, Within(absl::Milliseconds(50), Queries({"two"}))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(EncodeNow(*encoder, Within(-absl::Seconds(1), Queries({"three"}))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(patient.IsOver());
  open.set_value();
  ExpectMatrices(patient.Wait(), {"one"});
}

TEST(EncoderFailuresTest, ACancelledRequestEndsAtOnce) {
  FakeEncoder fake(Always({.delay = std::chrono::hours(1)}));
  HttpEncoderOptions options = OptionsFor(fake);
  options.connections = 1;
  const auto encoder = MakeEncoder(options);
  PendingEncode sent(*encoder, Queries({"one"}));
  ASSERT_TRUE(fake.WaitForCalls(1));
  PendingEncode queued(*encoder, Queries({"two"}));
  queued.Cancel();
  sent.Cancel();
  sent.Cancel();
  EXPECT_EQ(sent.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(queued.Wait().status().code(), absl::StatusCode::kCancelled);
}

TEST(EncoderFailuresTest, RequestsInProgressEndWithTheEncoder) {
  FakeEncoder fake(Always({.delay = std::chrono::hours(1)}));
  HttpEncoderOptions options = OptionsFor(fake);
  options.connections = 1;
  auto encoder = MakeEncoder(options);
  PendingEncode sent(*encoder, Queries({"one"}));
  ASSERT_TRUE(fake.WaitForCalls(1));
  PendingEncode queued(*encoder, Queries({"two"}));
  encoder.reset();
  EXPECT_EQ(sent.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queued.Wait().status().code(), absl::StatusCode::kUnavailable);
  queued.Cancel();
}

TEST(EncoderFailuresTest, AnswersThatAreNoneAreNamed) {
  EXPECT_THAT(StatusWith({.body = "<html>"}).message(), HasSubstr("its answer: malformed JSON"));
  EXPECT_THAT(StatusWith({.body = test::AnswerObjects({"one"}, kTestDim, "data"), .is_cut_off = true}).message(),
              HasSubstr("cut off"));
  EXPECT_THAT(StatusWith({.closes_unanswered = true}).message(), HasSubstr("it closed the connection"));
  const absl::Status dim = StatusWith({.body = test::AnswerObjects({"one"}, 16, "data")});
  EXPECT_EQ(dim.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(dim.message(), HasSubstr("16 values, but 8 are expected"));
  EXPECT_THAT(StatusWith({.body = test::AnswerObjects({"one", "two"}, kTestDim, "data")}).message(),
              HasSubstr("index 1 is not below"));
  EXPECT_THAT(StatusWith({.status = 500, .body = "{\"error\":\"out of memory\"}"}).message(), HasSubstr("status 500"));
  EXPECT_EQ(StatusWith({.status = 500}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StatusWith({.status = 302}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StatusWith({.status = 404}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_LT(StatusWith({.status = 500, .body = std::string(100000, 'x')}).message().size(), 800u);
}

TEST(EncoderFailuresTest, AnAnswerThatIsTooLargeIsNotRead) {
  const absl::Status status = StatusWith({.body = std::string(100000, ' ')},
                                         [](HttpEncoderOptions& options) { options.max_answer_bytes = 5000; });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("more than 5000 bytes"));
}

TEST(EncoderFailuresTest, TooManyTokensFailTheirTextAlone) {
  FakeEncoder fake(Right);
  HttpEncoderOptions options = OptionsFor(fake);
  options.max_query_tokens = 3;
  options.window = absl::Milliseconds(50);
  const auto encoder = MakeEncoder(options);
  EncodeRequest short_request = Queries({"two words"});
  PendingEncode right(*encoder, short_request);
  PendingEncode wrong(*encoder, Queries({"a", "four words are here"}));
  ExpectMatrices(right.Wait(), {"two words"});
  const absl::Status status = wrong.Wait().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("text 1 has 4 tokens, the limit is 3"));
  short_request.max_tokens = 1;
  EXPECT_THAT(EncodeNow(*encoder, short_request).status().message(), HasSubstr("the limit is 1"));
  ExpectMatrices(EncodeNow(*encoder, Documents({"four words are here"})), {"four words are here"});
}

TEST(EncoderFailuresTest, ABusyEncoderSaysWhenToComeAgain) {
  const absl::Status status = StatusWith({.status = 429, .body = "overloaded", .retry_after = "7"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("is busy: status 429"));
  EXPECT_EQ(client::RetryAfter(status), absl::Seconds(7));
  EXPECT_EQ(client::RetryAfter(StatusWith({.status = 503, .retry_after = "2"})), absl::Seconds(2));
}

TEST(EncoderFailuresTest, AStaleConnectionIsReplacedOnce) {
  // The encoder closes a kept connection instead of answering its second call.
  FakeEncoder fake([](const FakeCall& call) {
    FakeReply reply = Right(call);
    reply.closes_unanswered = call.number == 1;
    return reply;
  });
  const auto encoder = MakeEncoder(OptionsFor(fake));
  ExpectMatrices(EncodeNow(*encoder, Queries({"one"})), {"one"});
  ExpectMatrices(EncodeNow(*encoder, Queries({"two"})), {"two"});
  EXPECT_EQ(fake.num_connections(), 2);
  EXPECT_EQ(fake.num_calls(), 3);
}

TEST(EncoderFailuresTest, AFreshConnectionThatIsClosedIsNotTriedAgain) {
  FakeEncoder fake([](const FakeCall& call) {
    FakeReply reply = Right(call);
    reply.closes_unanswered = call.number >= 1;
    return reply;
  });
  const auto encoder = MakeEncoder(OptionsFor(fake));
  ExpectMatrices(EncodeNow(*encoder, Queries({"one"})), {"one"});
  EXPECT_EQ(EncodeNow(*encoder, Queries({"two"})).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(fake.num_calls(), 3);
}

class EncoderBreakerTest : public testing::Test {
 protected:
  // Lets three calls fail, which opens the circuit breaker for `cooldown`.
  void Open(absl::Duration cooldown) {
    HttpEncoderOptions options = OptionsFor(fake_);
    options.breaker_failures = 3;
    options.breaker_cooldown = cooldown;
    encoder_ = MakeEncoder(options, &metrics_);
    for (int idx = 0; idx < 3; ++idx) {
      EXPECT_THAT(EncodeNow(*encoder_, Queries({"a"})).status().message(), HasSubstr("status 500"));
    }
  }

  Metrics metrics_;
  std::atomic<bool> works_{false};
  FakeEncoder fake_{
      [this](const FakeCall& call) { return works_ ? Right(call) : FakeReply{.status = 500, .body = "sick"}; }};
  std::unique_ptr<HttpEncoder> encoder_;
};

TEST_F(EncoderBreakerTest, AnOpenBreakerRefusesWithoutACall) {
  Open(absl::Hours(1));
  const absl::Status open = EncodeNow(*encoder_, Queries({"a"})).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(open.message(), HasSubstr("is not called"));
  EXPECT_THAT(open.message(), HasSubstr("after 3 failures in a row"));
  EXPECT_THAT(open.message(), HasSubstr("status 500"));
  EXPECT_TRUE(client::RetryAfter(open).has_value());
  EXPECT_EQ(fake_.num_calls(), 3);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_encoder_breaker_state 2"));
}

TEST_F(EncoderBreakerTest, AProbeAfterTheCooldownClosesItOrOpensItAgain) {
  Open(absl::Nanoseconds(1));
  EXPECT_THAT(EncodeNow(*encoder_, Queries({"a"})).status().message(), HasSubstr("status 500"));
  EXPECT_EQ(fake_.num_calls(), 4);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_encoder_breaker_state 2"));
  works_ = true;
  ExpectMatrices(EncodeNow(*encoder_, Queries({"a"})), {"a"});
  ExpectMatrices(EncodeNow(*encoder_, Queries({"b"})), {"b"});
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_encoder_breaker_state 0"));
}

TEST(EncoderFailuresTest, WhatWaitsWhenTheBreakerOpensEndsAtOnce) {
  std::promise<void> open;
  FakeEncoder fake([opened = open.get_future().share()](const FakeCall&) {
    opened.wait();
    return FakeReply{.status = 500};
  });
  HttpEncoderOptions options = OptionsFor(fake);
  options.breaker_failures = 1;
  options.breaker_cooldown = absl::Hours(1);
  options.connections = 1;
  options.max_batch_texts = 1;
  const auto encoder = MakeEncoder(options);
  PendingEncode sent(*encoder, Queries({"one"}));
  ASSERT_TRUE(fake.WaitForCalls(1));
  PendingEncode queued(*encoder, Queries({"two"}));
  open.set_value();
  EXPECT_THAT(sent.Wait().status().message(), HasSubstr("status 500"));
  EXPECT_THAT(queued.Wait().status().message(), HasSubstr("is not called"));
  EXPECT_EQ(fake.num_calls(), 1);
}

}  // namespace
}  // namespace maxsim::encoder
