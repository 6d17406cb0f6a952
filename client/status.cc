#include "client/status.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "google/protobuf/any.pb.h"
#include "maxsim/google_rpc/status.pb.h"

namespace maxsim::client {
namespace {

constexpr int64_t kMaxRetrySeconds = 365 * 24 * 3600;

// Limit of each detail, and of the message's copy among the details. The message is in the trailers twice, once
// percent-encoded, which can make three bytes of one.
constexpr size_t kMaxDetailBytes = 1024;

// Beginnings of the messages of gRPC's own errors for calls that it never sent, because its load balancer had no
// connection. No code or detail of gRPC says this. (These are the words of gRPC 1.51 and earlier. If another version
// uses other words, such a write is not tried at a second replica; nothing else breaks.)
constexpr std::array<const char*, 2> kNoConnection = {"failed to connect to all addresses",
                                                      "connections to all backends failing"};

bool IsNotConnected(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !status.error_details().empty()) return false;
  return std::any_of(kNoConnection.begin(), kNoConnection.end(),
                     [&](const char* words) { return status.error_message().starts_with(words); });
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
  return result;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google_rpc::Status details;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& value) {
    if (value.size() > kMaxDetailBytes) return;
    google::protobuf::Any detail;
    detail.set_type_url(std::string(type_url));
    detail.set_value(std::string(value));
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
