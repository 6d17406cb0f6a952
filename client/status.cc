#include "client/status.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/unknown_field_set.h"

namespace maxsim::client {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// google.rpc.Status and google.rpc.RetryInfo are read by field number: the distribution's packages hold neither their
// .proto files nor their headers.
constexpr int kStatusCode = 1;
constexpr int kStatusMessage = 2;
constexpr int kStatusDetails = 3;
constexpr int kRetryInfoDelay = 1;

constexpr int64_t kMaxRetrySeconds = 365 * 24 * 3600;

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  int code = status.error_code();
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    code = static_cast<int>(absl::StatusCode::kUnknown);
  }
  absl::Status result(static_cast<absl::StatusCode>(code), status.error_message());
  UnknownFieldSet details;
  if (status.error_details().empty() || !details.ParseFromString(status.error_details())) return result;
  for (int i = 0; i < details.field_count(); ++i) {
    const UnknownField& field = details.field(i);
    google::protobuf::Any detail;
    if (field.number() == kStatusDetails && field.type() == UnknownField::TYPE_LENGTH_DELIMITED &&
        detail.ParseFromString(field.length_delimited()) && !detail.type_url().empty()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message());
  UnknownFieldSet details;
  bool has_details = false;
  details.AddVarint(kStatusCode, static_cast<uint64_t>(status.code()));
  details.AddLengthDelimited(kStatusMessage, message);
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& value) {
    google::protobuf::Any detail;
    detail.set_type_url(std::string(type_url));
    detail.set_value(std::string(value));
    details.AddLengthDelimited(kStatusDetails, detail.SerializeAsString());
    has_details = true;
  });
  std::string bytes;
  if (has_details) details.SerializeToString(&bytes);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message, bytes);
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfoTypeUrl);
  UnknownFieldSet retry_info;
  if (!payload.has_value() || !retry_info.ParseFromString(std::string(*payload))) return std::nullopt;
  for (int i = 0; i < retry_info.field_count(); ++i) {
    const UnknownField& field = retry_info.field(i);
    if (field.number() != kRetryInfoDelay || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    google::protobuf::Duration delay;
    if (!delay.ParseFromString(field.length_delimited())) return std::nullopt;
    if (delay.seconds() < 0 || delay.seconds() > kMaxRetrySeconds || delay.nanos() < 0 || delay.nanos() > 999'999'999) {
      return std::nullopt;
    }
    return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
  }
  return std::nullopt;
}

void SetRetryAfter(absl::Duration delay, absl::Status& status) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &delay));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  UnknownFieldSet retry_info;
  retry_info.AddLengthDelimited(kRetryInfoDelay, proto.SerializeAsString());
  std::string bytes;
  retry_info.SerializeToString(&bytes);
  status.SetPayload(kRetryInfoTypeUrl, absl::Cord(bytes));
}

}  // namespace maxsim::client
