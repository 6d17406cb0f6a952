#include "client/status.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "google/protobuf/any.pb.h"
#include "maxsim/google_rpc/status.pb.h"

namespace maxsim::client {
namespace {

constexpr int64_t kMaxRetrySeconds = 365 * 24 * 3600;

// The maximum size of each detail, and of the message in the details. The trailers have the message twice, and one of
// the two copies is percent-encoded, which can turn one byte into three.
constexpr size_t kMaxDetailBytes = 1024;

// Ends a description that was cut to fit.
constexpr std::string_view kCut = "...";

// Beginnings of the messages of gRPC's own errors for calls that it never sent, because its load balancer had no
// connection. gRPC 1.51 and earlier use these words; no code or detail of gRPC says the same. FromGrpcStatus gives such
// errors the reason kReasonNotConnected. If another version of gRPC used other words, such errors would lack this
// reason. Then a router would not send a write that failed in this way to a second replica, and would wait longer for
// replicas that it cannot reach.
constexpr std::array<const char*, 2> kNoConnection = {"failed to connect to all addresses",
                                                      "connections to all backends failing"};

bool IsNotConnected(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !status.error_details().empty()) return false;
  return std::any_of(kNoConnection.begin(), kNoConnection.end(),
                     [&](const char* words) { return status.error_message().starts_with(words); });
}

// Returns the start of a text, at most `max_bytes` of it, without a part of a UTF-8 character at its end.
std::string_view StartOf(std::string_view text, size_t max_bytes) {
  size_t size = std::min(text.size(), max_bytes);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

// Shortens a BadRequest that is too long: keeps only its first field violation, and cuts this violation's description
// until the BadRequest fits. Returns nullopt if the BadRequest is malformed, has no field violation, or is too long
// even with the shortest description.
std::optional<std::string> ShortBadRequest(const std::string& bytes) {
  google_rpc::BadRequest request;
  if (!request.ParseFromString(bytes) || request.field_violations().empty()) return std::nullopt;
  google_rpc::BadRequest shortened;
  google_rpc::BadRequest::FieldViolation& violation = *shortened.add_field_violations();
  violation = request.field_violations(0);
  const size_t too_long = std::max(shortened.ByteSizeLong(), kMaxDetailBytes) - kMaxDetailBytes;
  if (too_long > 0) {
    const std::string& whole = violation.description();
    if (whole.size() < too_long + kCut.size()) return std::nullopt;
    violation.set_description(std::string(StartOf(whole, whole.size() - too_long - kCut.size())).append(kCut));
  }
  return shortened.SerializeAsString();
}

// Returns the bytes of a detail as they are sent, or nullopt if the detail is left out.
std::optional<std::string> ShortDetail(absl::string_view type_url, const absl::Cord& value) {
  std::string bytes(value);
  if (bytes.size() <= kMaxDetailBytes) return bytes;
  return type_url == kBadRequestTypeUrl ? ShortBadRequest(bytes) : std::nullopt;
}

// Restores the description of a field that ShortBadRequest cut. The message, "FIELD: PROBLEM", has the whole of it.
void RestoreDescription(absl::Status& status) {
  const auto payload = status.GetPayload(kBadRequestTypeUrl);
  google_rpc::BadRequest request;
  if (!payload.has_value() || !request.ParseFromString(std::string(*payload))) return;
  if (request.field_violations_size() != 1) return;
  google_rpc::BadRequest::FieldViolation& violation = *request.mutable_field_violations(0);
  std::string_view start = violation.description();
  if (!start.ends_with(kCut)) return;
  start.remove_suffix(kCut.size());
  const std::string before = violation.field() + ": ";
  std::string_view message(status.message().data(), status.message().size());
  if (!message.starts_with(before)) return;
  message.remove_prefix(before.size());
  if (!message.starts_with(start)) return;
  violation.set_description(std::string(message));
  status.SetPayload(kBadRequestTypeUrl, absl::Cord(request.SerializeAsString()));
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  int code = status.error_code();
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    code = static_cast<int>(absl::StatusCode::kUnknown);
  }
  absl::Status result(static_cast<absl::StatusCode>(code), status.error_message());
  if (IsNotConnected(status)) SetReason(kReasonNotConnected, result);
  google_rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const std::string& bytes : details.details()) {
    google::protobuf::Any detail;
    if (detail.ParseFromString(bytes) && !detail.type_url().empty()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  RestoreDescription(result);
  return result;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google_rpc::Status details;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& value) {
    const std::optional<std::string> shown = ShortDetail(type_url, value);
    if (!shown.has_value()) return;
    google::protobuf::Any detail;
    detail.set_type_url(std::string(type_url));
    detail.set_value(*shown);
    details.add_details(detail.SerializeAsString());
  });
  const std::string message(status.message());
  std::string bytes;
  if (details.details_size() > 0) {
    details.set_code(static_cast<int32_t>(status.code()));
    if (message.size() <= kMaxDetailBytes) details.set_message(message);
    details.SerializeToString(&bytes);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message, bytes);
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfoTypeUrl);
  google_rpc::RetryInfo retry_info;
  if (!payload.has_value() || !retry_info.ParseFromString(std::string(*payload)) || !retry_info.has_retry_delay()) {
    return std::nullopt;
  }
  const google::protobuf::Duration& delay = retry_info.retry_delay();
  if (delay.seconds() < 0 || delay.seconds() > kMaxRetrySeconds || delay.nanos() < 0 || delay.nanos() > 999'999'999) {
    return std::nullopt;
  }
  return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
}

void SetRetryAfter(absl::Duration delay, absl::Status& status) {
  google_rpc::RetryInfo retry_info;
  google::protobuf::Duration& proto = *retry_info.mutable_retry_delay();
  proto.set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &delay));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  status.SetPayload(kRetryInfoTypeUrl, absl::Cord(retry_info.SerializeAsString()));
}

void SetNothingWritten(absl::Status& status) { SetReason(kReasonNothingWritten, status); }

bool IsNothingWritten(const absl::Status& status) { return ReasonOf(status) == kReasonNothingWritten; }

}  // namespace maxsim::client
