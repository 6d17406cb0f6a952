#include "server/rpc/status.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/unknown_field_set.h"

namespace maxsim::rpc {
namespace {

// google.rpc.Status and google.rpc.RetryInfo are written by field number: the distributions' packages hold neither
// their .proto files nor their headers.
constexpr char kRetryInfoType[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr int kRetryInfoDelay = 1;
constexpr int kStatusCode = 1;
constexpr int kStatusMessage = 2;
constexpr int kStatusDetails = 3;

std::string Serialize(const google::protobuf::UnknownFieldSet& fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

}  // namespace

absl::Status InvalidField(std::string_view path, std::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(path), ": ", std::string(message)));
}

void SetRetryDelay(absl::Duration delay, absl::Status& status) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &delay));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  google::protobuf::UnknownFieldSet info;
  info.AddLengthDelimited(kRetryInfoDelay, proto.SerializeAsString());
  status.SetPayload(kRetryInfoType, absl::Cord(Serialize(info)));
}

uint32_t RetryDelayMs(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfoType);
  google::protobuf::UnknownFieldSet info;
  google::protobuf::Duration delay;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload)) || info.field_count() != 1 ||
      !delay.ParseFromString(info.field(0).length_delimited())) {
    return 0;
  }
  const int64_t ms = delay.seconds() * 1000 + (delay.nanos() + 999'999) / 1'000'000;
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 0, UINT32_MAX));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message());
  google::protobuf::UnknownFieldSet fields;
  fields.AddVarint(kStatusCode, static_cast<uint64_t>(status.code()));
  fields.AddLengthDelimited(kStatusMessage, message);
  const int num_plain = fields.field_count();
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& value) {
    google::protobuf::Any detail;
    detail.set_type_url(std::string(type));
    detail.set_value(std::string(value));
    fields.AddLengthDelimited(kStatusDetails, detail.SerializeAsString());
  });
  return {static_cast<grpc::StatusCode>(status.code()), message,
          fields.field_count() > num_plain ? Serialize(fields) : ""};
}

int ToHttp(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace maxsim::rpc
