#include "client/retry.h"

#include <limits>
#include <vector>

#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A fake clock. Its time advances only in Sleep(), or when a test calls Pass() to simulate a slow attempt.
class FakeClock final : public Clock {
 public:
  absl::Time Now() override { return now_; }
  void Sleep(absl::Duration duration) override {
    sleeps_.push_back(duration);
    now_ += duration;
  }
  void Pass(absl::Duration duration) { now_ += duration; }
  const std::vector<absl::Duration>& sleeps() const { return sleeps_; }

 private:
  absl::Time now_ = absl::UnixEpoch();
  std::vector<absl::Duration> sleeps_;
};

// Answers each attempt with the next of these answers. The last answer repeats.
class FakeTransport {
 public:
  explicit FakeTransport(std::vector<AttemptResult> answers) : answers_(std::move(answers)) {}
  AttemptResult operator()() {
    const size_t i = std::min<size_t>(calls_++, answers_.size() - 1);
    return answers_[i];
  }
  int calls() const { return static_cast<int>(calls_); }

 private:
  std::vector<AttemptResult> answers_;
  size_t calls_ = 0;
};

AttemptResult Ok() { return {absl::OkStatus(), std::nullopt}; }
AttemptResult Unavailable() { return {absl::UnavailableError("draining"), std::nullopt}; }
AttemptResult Exhausted(absl::Duration retry_after) {
  absl::Status status = absl::ResourceExhaustedError("queue full");
  SetRetryAfter(retry_after, status);
  return {status, std::nullopt};
}
double Middle() { return 0.5; }  // no jitter in either direction

struct CallRun {
  absl::Status status;
  int calls;
  std::vector<absl::Duration> sleeps;
};

CallRun RunCall(std::vector<AttemptResult> answers, RetryOptions options = {},
                absl::Duration timeout = absl::InfiniteDuration(), absl::FunctionRef<double()> uniform = Middle,
                absl::Duration attempt_takes = absl::ZeroDuration()) {
  FakeClock clock;
  FakeTransport transport(std::move(answers));
  const absl::Status status = RunWithRetries(options, clock.Now() + timeout, clock, uniform, [&] {
    clock.Pass(attempt_takes);
    return transport();
  });
  return {status, transport.calls(), clock.sleeps()};
}

TEST(RetryTest, SuccessIsNotRepeated) {
  const CallRun run = RunCall({Ok()});
  EXPECT_TRUE(run.status.ok());
  EXPECT_EQ(run.calls, 1);
}

TEST(RetryTest, UnavailableBacksOffExponentiallyUpToTheMaximum) {
  RetryOptions options;
  options.max_attempts = 6;
  options.initial_backoff = absl::Milliseconds(100);
  options.max_backoff = absl::Milliseconds(500);
  options.multiplier = 2;
  const CallRun run = RunCall({Unavailable()}, options);
  EXPECT_EQ(run.status, absl::UnavailableError("draining"));
  EXPECT_EQ(run.calls, 6);
  EXPECT_THAT(run.sleeps, ElementsAre(absl::Milliseconds(100), absl::Milliseconds(200), absl::Milliseconds(400),
                                      absl::Milliseconds(500), absl::Milliseconds(500)));
}

TEST(RetryTest, StopsAtTheFirstSuccess) {
  const CallRun run = RunCall({Unavailable(), Unavailable(), Ok()});
  EXPECT_TRUE(run.status.ok());
  EXPECT_EQ(run.calls, 3);
}

TEST(RetryTest, JitterSpreadsBothWays) {
  RetryOptions options;
  options.max_attempts = 2;
  options.initial_backoff = absl::Milliseconds(100);
  options.jitter = 0.25;
  EXPECT_THAT(RunCall({Unavailable()}, options, absl::InfiniteDuration(), [] { return 0.0; }).sleeps,
              ElementsAre(absl::Milliseconds(75)));
  EXPECT_THAT(RunCall({Unavailable()}, options, absl::InfiniteDuration(), [] { return 1.0; }).sleeps,
              ElementsAre(absl::Milliseconds(125)));
}

TEST(RetryTest, OtherErrorsAreFinal) {
  for (int code = 1; code <= 16; ++code) {
    const auto as_code = static_cast<absl::StatusCode>(code);
    if (as_code == absl::StatusCode::kUnavailable) continue;
    const absl::Status status(as_code, "x");  // RESOURCE_EXHAUSTED has no hint here
    const CallRun run = RunCall({{status, std::nullopt}});
    EXPECT_EQ(run.status, status);
    EXPECT_EQ(run.calls, 1) << status;
  }
}

TEST(RetryTest, ResourceExhaustedWaitsAsLongAsRetryInfoAsks) {
  const CallRun run = RunCall({Exhausted(absl::Seconds(3)), Ok()});
  EXPECT_TRUE(run.status.ok());
  EXPECT_THAT(run.sleeps, ElementsAre(absl::Seconds(3)));
}

TEST(RetryTest, RetryInfoIsAMinimumAndBackoffStillHolds) {
  RetryOptions options;
  options.initial_backoff = absl::Milliseconds(100);
  EXPECT_THAT(RunCall({Exhausted(absl::Milliseconds(1)), Ok()}, options).sleeps, ElementsAre(absl::Milliseconds(100)));
}

TEST(RetryTest, APushbackTrailerReplacesBackoffAndRetryInfo) {
  AttemptResult answer = Exhausted(absl::Seconds(9));
  answer.pushback_ms = "7";
  EXPECT_THAT(RunCall({answer, Ok()}).sleeps, ElementsAre(absl::Milliseconds(7)));
  answer = {absl::ResourceExhaustedError("full"), "0"};
  EXPECT_THAT(RunCall({answer, Ok()}).sleeps, ElementsAre(absl::ZeroDuration()));
}

TEST(RetryTest, ANegativeOrUnreadablePushbackForbidsARetry) {
  for (const char* value : {"-1", "", "soon", "12x", "1.5", "99999999999999999999"}) {
    AttemptResult answer = Unavailable();
    answer.pushback_ms = value;
    EXPECT_EQ(RunCall({answer, Ok()}).calls, 1) << '"' << value << '"';
  }
}

TEST(RetryTest, NeverSleepsToTheDeadlineOrPastIt) {
  RetryOptions options;
  options.max_attempts = 100;
  options.initial_backoff = options.max_backoff = absl::Milliseconds(100);
  // The attempts end after 10, 120 and 230 ms. A fourth would begin at 330 ms, which is the deadline.
  CallRun run = RunCall({Unavailable()}, options, absl::Milliseconds(330), Middle, absl::Milliseconds(10));
  EXPECT_EQ(run.calls, 3);
  EXPECT_EQ(run.status, absl::UnavailableError("draining"));
  run = RunCall({Unavailable()}, options, absl::Milliseconds(331), Middle, absl::Milliseconds(10));
  EXPECT_EQ(run.calls, 4);
  EXPECT_EQ(RunCall({Exhausted(absl::Hours(1)), Ok()}, options, absl::Seconds(10)).calls, 1);
}

TEST(RetryTest, ManyAttemptsDoNotOverflowTheBackoff) {
  RetryOptions options;
  options.max_attempts = 3000;
  options.multiplier = 10;
  const CallRun run = RunCall({Unavailable()}, options);
  EXPECT_EQ(run.calls, 3000);
  EXPECT_EQ(run.sleeps.back(), options.max_backoff);
}

TEST(RetryTest, OneAttemptNeverRetries) {
  RetryOptions options;
  options.max_attempts = 1;
  EXPECT_EQ(RunCall({Unavailable(), Ok()}, options).calls, 1);
}

TEST(RetryOptionsTest, NamesTheOptionThatIsWrong) {
  const auto message = [](auto change) {
    RetryOptions options;
    change(options);
    return std::string(ValidateRetryOptions(options).message());
  };
  EXPECT_TRUE(ValidateRetryOptions({}).ok());
  EXPECT_THAT(message([](RetryOptions& o) { o.max_attempts = 0; }), HasSubstr("max_attempts is 0"));
  EXPECT_THAT(message([](RetryOptions& o) { o.initial_backoff = absl::ZeroDuration(); }), HasSubstr("initial_backoff"));
  EXPECT_THAT(message([](RetryOptions& o) { o.max_backoff = absl::Milliseconds(1); }), HasSubstr("max_backoff"));
  EXPECT_THAT(message([](RetryOptions& o) { o.multiplier = 0.5; }), HasSubstr("multiplier is 0.5"));
  EXPECT_THAT(message([](RetryOptions& o) { o.jitter = 1.5; }), HasSubstr("jitter is 1.5"));
  EXPECT_THAT(message([](RetryOptions& o) { o.jitter = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("jitter"));
}

}  // namespace
}  // namespace maxsim::client
