#include "server/http/text/http_status.h"

#include <gtest/gtest.h>

namespace maxsim::http {
namespace {

TEST(HttpStatusTest, EveryErrorHasACode) {
  using Code = absl::StatusCode;
  EXPECT_EQ(ToHttpCode(Code::kOk), 200);
  EXPECT_EQ(ToHttpCode(Code::kInvalidArgument), 400);
  EXPECT_EQ(ToHttpCode(Code::kUnauthenticated), 401);
  EXPECT_EQ(ToHttpCode(Code::kPermissionDenied), 403);
  EXPECT_EQ(ToHttpCode(Code::kNotFound), 404);
  EXPECT_EQ(ToHttpCode(Code::kResourceExhausted), 429);
  EXPECT_EQ(ToHttpCode(Code::kInternal), 500);
  EXPECT_EQ(ToHttpCode(Code::kDataLoss), 500);
  EXPECT_EQ(ToHttpCode(Code::kUnavailable), 503);
  EXPECT_EQ(ToHttpCode(Code::kDeadlineExceeded), 504);
  for (int code = 1; code <= 16; ++code) EXPECT_GE(ToHttpCode(static_cast<Code>(code)), 400);
}

}  // namespace
}  // namespace maxsim::http
