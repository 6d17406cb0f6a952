#include "client/status.h"

#include <string>

#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "gtest/gtest.h"
#include "maxsim/google_rpc/status.pb.h"

namespace maxsim::client {
namespace {

// Returns the encoded bytes of a protobuf field that holds fewer than 128 bytes.
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
  absl::Status status = absl::UnavailableError("why");
  SetRetryAfter(absl::Seconds(1), status);
  const absl::Status without = status;
  status.SetPayload("type.googleapis.com/google.rpc.DebugInfo", absl::Cord(std::string(1025, 'x')));
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), without);
  status = InvalidField(std::string(2000, 'f'), std::string(4000, 'p'), Limit(1, 2, "limits.x"));
  EXPECT_EQ(FieldOf(FromGrpcStatus(ToGrpcStatus(status))), "") << "a field that does not fit itself";
  EXPECT_EQ(LimitOf(FromGrpcStatus(ToGrpcStatus(status))), 1u);
}

// The descriptions have about as many bytes as the limit, in characters of one, two or four bytes. If the cut falls
// within a character, the status must still be read back unchanged.
TEST(StatusTest, AFieldAndItsLimitSurviveALongDescription) {
  for (const std::string letter : {"p", "\xc3\xa4", "\xf0\x9f\x98\x80"}) {
    for (size_t size = 900; size < 1100; ++size) {
      std::string problem(size % letter.size(), 'x');
      while (problem.size() < size) problem += letter;
      const absl::Status status = InvalidField("documents[7].payload", problem, Limit(1, 2, "limits.x"));
      const grpc::Status on_the_wire = ToGrpcStatus(status);
      const absl::Status read = FromGrpcStatus(on_the_wire);
      ASSERT_EQ(read, status) << size;
      ASSERT_LT(on_the_wire.error_details().size(), 2 * 1024 + 500) << size;
    }
  }
  const absl::Status status = InvalidField("f", std::string(100'000, 'p'), Limit(1, 2, "limits.x"));
  EXPECT_LT(ToGrpcStatus(status).error_details().size(), 1500);
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  // A router that passes the status on changes its field and adds to its message.
  const absl::Status changed = WithAddition(WithField(FromGrpcStatus(ToGrpcStatus(status)), "g"), " (group a)");
  const absl::Status read = FromGrpcStatus(ToGrpcStatus(changed));
  EXPECT_EQ(read, changed);
  EXPECT_EQ(FieldOf(read), "g");
  EXPECT_EQ(ReasonOf(read), kReasonLimitExceeded);
  EXPECT_EQ(LimitOf(read), 1u);
  EXPECT_EQ(LimitKeyOf(read), "limits.x");
}

// A client may read only the description in the details. That description must show that it was cut.
TEST(StatusTest, ACutDescriptionSaysSo) {
  const grpc::Status on_the_wire = ToGrpcStatus(InvalidField("f", std::string(4000, 'p')));
  google_rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(on_the_wire.error_details()));
  google::protobuf::Any detail;
  google_rpc::BadRequest request;
  for (const std::string& bytes : details.details()) {
    ASSERT_TRUE(detail.ParseFromString(bytes));
    if (detail.type_url() != kBadRequestTypeUrl) continue;
    ASSERT_TRUE(request.ParseFromString(detail.value()));
  }
  ASSERT_EQ(request.field_violations_size(), 1);
  EXPECT_TRUE(request.field_violations(0).description().ends_with("ppp..."));
  EXPECT_LE(request.ByteSizeLong(), 1024u);
}

TEST(StatusTest, ADescriptionThatTheMessageDoesNotHoldStaysAsItIs) {
  absl::Status status = InvalidField("f", "ends with...");
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  const grpc::Status other(grpc::StatusCode::INVALID_ARGUMENT, "another message", ToGrpcStatus(status).error_details());
  EXPECT_EQ(FromGrpcStatus(other).GetPayload(kBadRequestTypeUrl), status.GetPayload(kBadRequestTypeUrl));
}

TEST(StatusTest, ACallThatGrpcHadNoConnectionForSaysSo) {
  const std::string words = "failed to connect to all addresses; last error: it was refused";
  const absl::Status status = FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, words});
  EXPECT_EQ(status.message(), words);
  EXPECT_EQ(ReasonOf(status), kReasonNotConnected);
  EXPECT_EQ(ReasonOf(FromGrpcStatus({grpc::StatusCode::INTERNAL, words})), "");
  EXPECT_EQ(ReasonOf(FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "Socket closed"})), "");
  // An error with details comes from a server. So there was a connection.
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

// These are the bytes of google.rpc.Status {code: 8, message: "m", details: [Any{RetryInfo{retry_delay: {seconds: 2,
// nanos: 500000000}}}]}. They are written by hand, so that the test finds a mistake that the product's reader and
// writer share.
TEST(StatusTest, ReadsTheBytesOfAGoogleRpcStatus) {
  const std::string retry_info = Field(1, std::string("\x08\x02\x10\x80\xca\xb5\xee\x01", 8));
  const std::string any = Field(1, "type.googleapis.com/google.rpc.RetryInfo") + Field(2, retry_info);
  const std::string bytes = std::string("\x08\x08", 2) + Field(2, "m") + Field(3, any);
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "m", bytes));
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(2500));

  // Wherever the status is cut, only the retry delay may be lost.
  for (size_t length = 0; length < bytes.size(); ++length) {
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
