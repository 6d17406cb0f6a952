#include "server/http/transport/call_end.h"

#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/rerank/responses.h"
#include "server/observability/metrics.h"
#include "server/service/call/call_record.h"

namespace maxsim::http {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReplyOnceTest : public testing::Test {
 protected:
  std::shared_ptr<ReplyOnce> Begin() {
    return std::make_shared<ReplyOnce>(service::FinishedCall{.metrics = &metrics_, .method = "http"},
                                       [this](Response response) { status_ = response.status; });
  }

  static std::string Series(const char* code) {
    return std::string("maxsim_requests_total{code=\"") + code + "\",method=\"http\"} 1\n";
  }

  Metrics metrics_;
  int status_ = 0;
};

TEST_F(ReplyOnceTest, CountsTheAnswerThatTheClientGets) {
  Begin()->operator()(Json(200, "{}"));
  EXPECT_EQ(status_, 200);
  EXPECT_THAT(metrics_.Expose(), HasSubstr(Series("OK")));
}

TEST_F(ReplyOnceTest, CountsAnErrorThatComesAfterTheServiceSucceeded) {
  const auto reply = Begin();
  service::Record({.method = "http", .record = reply->record()}, {.metrics = &metrics_, .method = "http"},
                  absl::OkStatus());
  EXPECT_THAT(metrics_.Expose(), Not(HasSubstr("maxsim_requests_total{")));
  (*reply)(Error(absl::DeadlineExceededError("the answer took too long to write")));
  // Only the first answer counts.
  (*reply)(Json(200, "{}"));
  EXPECT_EQ(status_, 504);
  EXPECT_THAT(metrics_.Expose(), HasSubstr(Series("DEADLINE_EXCEEDED")));
  EXPECT_THAT(metrics_.Expose(), Not(HasSubstr(Series("OK"))));
}

TEST_F(ReplyOnceTest, CountsACallThatAnExceptionEnded) {
  Begin();
  EXPECT_EQ(status_, 503);
  EXPECT_THAT(metrics_.Expose(), HasSubstr(Series("RESOURCE_EXHAUSTED")));
}

}  // namespace
}  // namespace maxsim::http
