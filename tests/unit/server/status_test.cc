#include "server/rpc/status.h"

#include <string>

#include <gtest/gtest.h>

#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/unknown_field_set.h"

namespace maxsim::rpc {
namespace {

TEST(StatusTest, CodesAreEqualByNumberInGrpc) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpc(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "why");
    EXPECT_EQ(status.error_details(), "") << "details only where there is something to say";
  }
}

TEST(StatusTest, EveryCodeHasAnHttpCode) {
  using Code = absl::StatusCode;
  EXPECT_EQ(ToHttp(Code::kOk), 200);
  EXPECT_EQ(ToHttp(Code::kInvalidArgument), 400);
  EXPECT_EQ(ToHttp(Code::kUnauthenticated), 401);
  EXPECT_EQ(ToHttp(Code::kPermissionDenied), 403);
  EXPECT_EQ(ToHttp(Code::kNotFound), 404);
  EXPECT_EQ(ToHttp(Code::kResourceExhausted), 429);
  EXPECT_EQ(ToHttp(Code::kInternal), 500);
  EXPECT_EQ(ToHttp(Code::kDataLoss), 500);
  EXPECT_EQ(ToHttp(Code::kUnavailable), 503);
  EXPECT_EQ(ToHttp(Code::kDeadlineExceeded), 504);
  for (int code = 1; code <= 16; ++code) EXPECT_GE(ToHttp(static_cast<Code>(code)), 400);
}

TEST(StatusTest, TheRetryHintIsAGoogleRpcRetryInfo) {
  absl::Status status = absl::ResourceExhaustedError("full");
  EXPECT_EQ(RetryDelayMs(status), 0u);
  SetRetryDelay(absl::Milliseconds(2500) + absl::Nanoseconds(1), status);
  EXPECT_EQ(RetryDelayMs(status), 2501u);

  // google.rpc.Status{code = 1, message = 2, repeated Any details = 3}; RetryInfo{Duration retry_delay = 1}.
  google::protobuf::UnknownFieldSet fields;
  ASSERT_TRUE(fields.ParseFromString(ToGrpc(status).error_details()));
  ASSERT_EQ(fields.field_count(), 3);
  EXPECT_EQ(fields.field(0).number(), 1);
  EXPECT_EQ(fields.field(0).varint(), 8u);
  EXPECT_EQ(fields.field(1).number(), 2);
  EXPECT_EQ(fields.field(1).length_delimited(), "full");
  EXPECT_EQ(fields.field(2).number(), 3);
  google::protobuf::Any any;
  ASSERT_TRUE(any.ParseFromString(fields.field(2).length_delimited()));
  EXPECT_EQ(any.type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  google::protobuf::UnknownFieldSet info;
  ASSERT_TRUE(info.ParseFromString(any.value()));
  google::protobuf::Duration delay;
  ASSERT_TRUE(delay.ParseFromString(info.field(0).length_delimited()));
  EXPECT_EQ(delay.seconds(), 2);
  EXPECT_EQ(delay.nanos(), 500000001);
}

}  // namespace
}  // namespace maxsim::rpc
