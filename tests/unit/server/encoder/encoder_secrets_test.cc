// Tests that an encoder's error message goes to the log without the access token, and never to a client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/server/encoder/encoder_fixture.h"

namespace maxsim::encoder {
namespace {

using test::FakeCall;
using test::FakeEncoder;
using test::FakeReply;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "ENCODER-SECRET-TOKEN";

struct Said {
  absl::Status to_client;
  std::string in_log;
};

// Calls an encoder whose answer may quote the request. Returns the log's text and the client's error. With the dialect
// maxsim, the first call is /info.
Said SaidBy(const std::function<FakeReply(const FakeCall&)>& handler, Dialect dialect = Dialect::kVllm,
            int breaker_failures = 0) {
  LogText log;
  Said said;
  {
    FakeEncoder fake(handler);
    HttpEncoderOptions options = OptionsFor(fake);
    options.dialect = dialect;
    options.breaker_failures = breaker_failures;
    options.token_file = testing::TempDir() + "encoder_secret_token";
    std::ofstream(options.token_file) << kToken << "\n";
    const auto encoder = MakeEncoder(options);
    said.to_client = EncodeNow(*encoder, Queries({"one"})).status();
    if (breaker_failures > 0) said.to_client = EncodeNow(*encoder, Queries({"one"})).status();
  }
  said.in_log = log.text();
  return said;
}

TEST(EncoderSecretsTest, WhatAnErrorSaysIsLoggedAndNotPassedOn) {
  for (const int status : {400, 401, 403, 404, 413, 418, 422, 429, 500, 503}) {
    SCOPED_TRACE(status);
    const Said said = SaidBy([&](const FakeCall& call) {
      return FakeReply{.status = status, .body = "its words; Authorization: " + call.authorization};
    });
    EXPECT_THAT(said.to_client.message(), HasSubstr("status " + std::to_string(status)));
    EXPECT_THAT(said.to_client.message(), Not(HasSubstr("its words")));
    EXPECT_THAT(said.to_client.message(), Not(HasSubstr(kToken)));
    EXPECT_THAT(said.in_log, HasSubstr("encoder_refusal"));
    EXPECT_THAT(said.in_log, HasSubstr("its words; Authorization: Bearer ***"));
    EXPECT_THAT(said.in_log, Not(HasSubstr(kToken)));
  }
}

TEST(EncoderSecretsTest, AnOpenBreakerDoesNotPassOnTheLastError) {
  const Said said =
      SaidBy([](const FakeCall& call) { return FakeReply{.status = 500, .body = "its words " + call.authorization}; },
             Dialect::kVllm, /*breaker_failures=*/1);
  EXPECT_THAT(said.to_client.message(), HasSubstr("is not called after 1 failures"));
  EXPECT_THAT(said.to_client.message(), Not(HasSubstr("its words")));
  EXPECT_THAT(said.to_client.message(), Not(HasSubstr(kToken)));
  EXPECT_THAT(said.in_log, HasSubstr("encoder_breaker"));
  EXPECT_THAT(said.in_log, Not(HasSubstr(kToken)));
}

TEST(EncoderSecretsTest, WhatIsNoAnswerIsNotQuoted) {
  for (const Dialect dialect : {Dialect::kVllm, Dialect::kOpenAi, Dialect::kTei, Dialect::kMaxsim}) {
    for (const std::string before : {"", "\"", "[", "{\"", "{\"model\":\""}) {
      SCOPED_TRACE(before);
      const Said said =
          SaidBy([&](const FakeCall& call) { return FakeReply{.body = before + call.authorization}; }, dialect);
      EXPECT_FALSE(said.to_client.ok());
      EXPECT_THAT(said.to_client.message(), Not(HasSubstr("SECRET")));
      EXPECT_THAT(said.in_log, Not(HasSubstr("SECRET")));
    }
  }
}

TEST(EncoderSecretsTest, TheErrorsOfInfoAreNotPassedOn) {
  const Said said =
      SaidBy([](const FakeCall& call) { return FakeReply{.status = 403, .body = "its words " + call.authorization}; },
             Dialect::kMaxsim);
  EXPECT_THAT(said.to_client.message(), HasSubstr("/info: status 403"));
  EXPECT_THAT(said.to_client.message(), Not(HasSubstr("its words")));
  EXPECT_THAT(said.in_log, HasSubstr("its words Bearer ***"));
}

TEST(EncoderSecretsTest, RefusalsDoNotFillTheLog) {
  LogText log;
  FakeEncoder fake([](const FakeCall&) { return FakeReply{.status = 422, .body = "its words"}; });
  const auto encoder = MakeEncoder(OptionsFor(fake));
  const absl::Time begin = MonotonicNow();
  for (int idx = 0; idx < 50; ++idx) EncodeNow(*encoder, Queries({"one"})).IgnoreError();
  const auto num_seconds = static_cast<size_t>(absl::ToInt64Seconds(MonotonicNow() - begin)) + 2;
  const std::string text = log.text();
  size_t num_lines = 0;
  for (size_t at = text.find("encoder_refusal"); at != text.npos; at = text.find("encoder_refusal", at + 1)) {
    ++num_lines;
  }
  EXPECT_GE(num_lines, 1u);
  EXPECT_LE(num_lines, 5 * num_seconds);
}

}  // namespace
}  // namespace maxsim::encoder
