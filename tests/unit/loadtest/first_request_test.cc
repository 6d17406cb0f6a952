// Tests the request that a load test sends before its clock starts, against a model of a server.
#include "loadtest/run/first_request.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/loadtest/modelled_server.h"

namespace maxsim::loadtest {
namespace {

absl::Status Busy(absl::Duration retry_after) {
  absl::Status status = absl::ResourceExhaustedError("the queue is full");
  client::SetRetryAfter(retry_after, status);
  return status;
}

class FirstRequestTest : public testing::Test {
 protected:
  FirstRequestResult Send(std::function<absl::Status(int64_t n)> status, const FirstRequestOptions& options = {}) {
    ModelQueue::Behaviour behaviour;
    behaviour.status = std::move(status);
    ModelQueue queue(std::move(behaviour));
    const std::unique_ptr<Workload> workload = OneHitWorkload();
    return SendFirstRequest(
        options, (*workload)[0], queue, [this](const absl::Status& answer) { busy_.push_back(answer); }, stop_);
  }

  std::atomic<bool> stop_{false};
  std::vector<absl::Status> busy_;  // the statuses that on_busy got
};

TEST_F(FirstRequestTest, IsSentOnceWhereItIsAnswered) {
  const FirstRequestResult result = Send(nullptr);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.sent, 1);
  EXPECT_EQ(result.rejected, 0);
  EXPECT_TRUE(busy_.empty());
}

TEST_F(FirstRequestTest, IsSentAgainWhenABusyServerSaysWhen) {
  const absl::Time begin = absl::Now();
  const FirstRequestResult result =
      Send([](int64_t n) { return n < 3 ? Busy(absl::Milliseconds(60)) : absl::OkStatus(); });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.sent, 4);
  EXPECT_EQ(result.rejected, 3);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(180)) << "less than the server asked for";
  ASSERT_EQ(busy_.size(), 1u);
  EXPECT_EQ(busy_[0].message(), "the queue is full");
}

TEST_F(FirstRequestTest, IsNotSentAgainWhereItWouldFailAgain) {
  // None of these errors passes with time, so the request must not be sent again. RESOURCE_EXHAUSTED without a retry
  // delay may mean that the request is too large.
  for (const absl::Status& status : {absl::ResourceExhaustedError("too large"), absl::NotFoundError("no such id"),
                                     absl::UnavailableError("draining")}) {
    const FirstRequestResult result = Send([&status](int64_t) { return status; });
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.sent, 1);
    EXPECT_EQ(result.rejected, absl::IsResourceExhausted(status) ? 1 : 0);
  }
  EXPECT_TRUE(busy_.empty());
}

TEST_F(FirstRequestTest, PatienceEnds) {
  const FirstRequestResult result =
      Send([](int64_t) { return Busy(absl::ZeroDuration()); }, {.busy_time_limit = absl::Milliseconds(150)});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr("the server is busy, asked "));
  EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr("at most 150ms: the queue is full"));
  EXPECT_EQ(result.sent, result.rejected);
  EXPECT_GE(result.sent, 1);
  EXPECT_LE(result.sent, 8) << "a hint of nothing is not taken at its word";
  // If the server's retry delay is longer than the time limit, the load test gives up at once.
  EXPECT_EQ(Send([](int64_t) { return Busy(absl::Hours(1)); }).sent, 1);
}

TEST_F(FirstRequestTest, StopEndsTheWaiting) {
  std::thread stopper([this] {
    absl::SleepFor(absl::Milliseconds(100));
    stop_ = true;
  });
  const FirstRequestResult result =
      Send([](int64_t) { return Busy(absl::Hours(1)); }, {.busy_time_limit = absl::Hours(2)});
  stopper.join();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
}

TEST_F(FirstRequestTest, NoAnswerIsAnError) {
  ModelQueue::Behaviour behaviour;
  behaviour.service_ns = int64_t{3600} * 1'000'000'000;
  ModelQueue queue(std::move(behaviour));
  const std::unique_ptr<Workload> workload = OneHitWorkload();
  const FirstRequestResult result = SendFirstRequest(
      {.timeout = absl::Milliseconds(30)}, (*workload)[0], queue, [](const absl::Status&) {}, stop_);
  EXPECT_EQ(result.status, absl::DeadlineExceededError("no answer"));
  EXPECT_EQ(result.sent, 1);
}

}  // namespace
}  // namespace maxsim::loadtest
