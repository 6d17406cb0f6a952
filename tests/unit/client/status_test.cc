#include "client/status.h"

#include <string>

#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "gtest/gtest.h"

namespace maxsim::client {
namespace {

// Returns a length-delimited field of fewer than 128 bytes as it is on the wire.
std::string Field(int number, const std::string& bytes) {
  std::string field;
  field.push_back(static_cast<char>(number << 3 | 2));
  field.push_back(static_cast<char>(bytes.size()));
  field.append(bytes);
  return field;
}

TEST(StatusTest, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "text of the error");
    const grpc::Status on_the_wire = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(on_the_wire.error_code()), code);
    EXPECT_EQ(FromGrpcStatus(on_the_wire), status) << "code " << code;
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(StatusTest, AStatusWithoutPayloadHasNoDetails) {
  EXPECT_EQ(ToGrpcStatus(absl::NotFoundError("why")).error_details(), "");
}

TEST(StatusTest, ADetailThatNoTrailerHasRoomForIsLeftOut) {
  absl::Status status = InvalidField("f", std::string(1000, 'p'));
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  status = InvalidField("f", std::string(4000, 'p'));
  const grpc::Status on_the_wire = ToGrpcStatus(status);
  EXPECT_LT(on_the_wire.error_details().size(), 200);
  EXPECT_EQ(FieldOf(FromGrpcStatus(on_the_wire)), "");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(on_the_wire)), "INVALID_FIELD");
  EXPECT_EQ(FromGrpcStatus(on_the_wire).message(), status.message());
}

TEST(StatusTest, ACallThatGrpcHadNoConnectionForSaysSo) {
  const std::string words = "failed to connect to all addresses; last error: it was refused";
  const absl::Status status = FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, words});
  EXPECT_EQ(status.message(), words);
  EXPECT_EQ(ReasonOf(status), kReasonNotConnected);
  EXPECT_EQ(ReasonOf(FromGrpcStatus({grpc::StatusCode::INTERNAL, words})), "");
  EXPECT_EQ(ReasonOf(FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "Socket closed"})), "");
  // A server that has details to give was reached.
  absl::Status of_server = absl::UnavailableError(words);
  SetRetryAfter(absl::Seconds(1), of_server);
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(of_server)), of_server);
}

TEST(StatusTest, AnUnknownCodeBecomesUnknown) {
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::DO_NOT_USE, "x")), absl::UnknownError("x"));
}

TEST(StatusTest, RetryInfoSurvivesTheRoundTrip) {
  for (const absl::Duration delay : {absl::ZeroDuration(), absl::Milliseconds(1), absl::Milliseconds(1500),
                                     absl::Nanoseconds(999'999'999), absl::Hours(3)}) {
    absl::Status status = absl::ResourceExhaustedError("queue full");
    SetRetryAfter(delay, status);
    EXPECT_EQ(RetryAfter(status), delay);
    EXPECT_EQ(RetryAfter(FromGrpcStatus(ToGrpcStatus(status))), delay);
  }
  EXPECT_EQ(RetryAfter(absl::ResourceExhaustedError("queue full")), std::nullopt);
}

// The bytes are google.rpc.Status {code: 8, message: "m", details: [Any{RetryInfo{retry_delay: {seconds: 2, nanos:
// 500000000}}}]}, written by hand, so that a mistake which both of our directions share cannot hide.
TEST(StatusTest, ReadsTheBytesOfAGoogleRpcStatus) {
  const std::string retry_info = Field(1, std::string("\x08\x02\x10\x80\xca\xb5\xee\x01", 8));
  const std::string any = Field(1, "type.googleapis.com/google.rpc.RetryInfo") + Field(2, retry_info);
  const std::string bytes = std::string("\x08\x08", 2) + Field(2, "m") + Field(3, any);
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "m", bytes));
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(2500));

  for (size_t length = 0; length < bytes.size(); ++length) {  // a status cut anywhere loses at most its hint
    const absl::Status cut =
        FromGrpcStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "m", bytes.substr(0, length)));
    EXPECT_EQ(cut.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(cut.message(), "m");
    EXPECT_EQ(RetryAfter(cut), std::nullopt) << length;
  }
}

TEST(StatusTest, AMalformedDetailCostsNoOther) {
  const std::string retry_info = Field(1, std::string("\x08\x02", 2));
  const std::string good = Field(1, "type.googleapis.com/google.rpc.RetryInfo") + Field(2, retry_info);
  for (const std::string& bad : {std::string("\xff"), Field(1, "not UTF-8 \xff"), std::string("\x0a\x7f", 2)}) {
    const std::string bytes = std::string("\x08\x08", 2) + Field(3, bad) + Field(3, good);
    const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "m", bytes));
    EXPECT_EQ(RetryAfter(status), absl::Seconds(2));
  }
}

TEST(StatusTest, ANegativeOrAbsurdDelayIsNoHint) {
  for (const auto& [seconds, nanos] :
       {std::pair<int64_t, int>{-1, 0}, {0, -5}, {0, 1'000'000'000}, {int64_t{1} << 62, 0}}) {
    google::protobuf::Duration delay;
    delay.set_seconds(seconds);
    delay.set_nanos(nanos);
    const std::string inner = delay.SerializeAsString();
    absl::Status status = absl::UnavailableError("x");
    status.SetPayload(kRetryInfoTypeUrl, absl::Cord(Field(1, inner)));
    EXPECT_EQ(RetryAfter(status), std::nullopt) << seconds << " s " << nanos << " ns";
  }
}

}  // namespace
}  // namespace maxsim::client
