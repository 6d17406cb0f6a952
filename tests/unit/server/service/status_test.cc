#include "server/service/call/status.h"

#include <string>

#include <gtest/gtest.h>

#include "client/status.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/unknown_field_set.h"

namespace maxsim::service {
namespace {

TEST(StatusTest, TheRetryHintIsAGoogleRpcRetryInfo) {
  absl::Status status = absl::ResourceExhaustedError("full");
  EXPECT_EQ(RetryDelayMs(status), 0u);
  client::SetRetryAfter(absl::Milliseconds(2500) + absl::Nanoseconds(1), status);
  EXPECT_EQ(RetryDelayMs(status), 2501u);

  // The fields are those of google.rpc.Status{code = 1, message = 2, repeated Any details = 3} and RetryInfo{Duration
  // retry_delay = 1}.
  google::protobuf::UnknownFieldSet fields;
  ASSERT_TRUE(fields.ParseFromString(client::ToGrpcStatus(status).error_details()));
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
}  // namespace maxsim::service
