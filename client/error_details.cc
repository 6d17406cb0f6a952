#include "client/error_details.h"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/cord.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "maxsim/google_rpc/status.pb.h"

namespace maxsim::client {
namespace {

constexpr char kDomain[] = "maxsim";

// Keys of ErrorInfo's metadata.
constexpr char kLimit[] = "limit";
constexpr char kLimitKey[] = "limit_key";
constexpr char kValue[] = "value";
constexpr char kNumDeleted[] = "num_deleted";

// Returns the payload of a type, or an empty message if the status has none or it is malformed.
template <typename Message>
Message PayloadOf(const absl::Status& status, const char* type_url) {
  Message message;
  const auto payload = status.GetPayload(type_url);
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) message.Clear();
  return message;
}

template <typename Message>
void SetPayload(const Message& message, const char* type_url, absl::Status& status) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // sorts maps, so that equal errors have equal bytes
    message.SerializeToCodedStream(&coded);
  }
  status.SetPayload(type_url, absl::Cord(std::move(bytes)));
}

google_rpc::ErrorInfo InfoOf(const absl::Status& status) {
  auto info = PayloadOf<google_rpc::ErrorInfo>(status, kErrorInfoTypeUrl);
  if (info.domain() != kDomain) info.Clear();
  return info;
}

std::string MetadataOf(const absl::Status& status, const char* key) {
  const google_rpc::ErrorInfo info = InfoOf(status);
  const auto found = info.metadata().find(std::string(key));
  return found == info.metadata().end() ? std::string() : found->second;
}

// Returns a number of the metadata, or nullopt if the key is missing or its value is not a number.
std::optional<uint64_t> NumberOf(const absl::Status& status, const char* key) {
  const std::string text = MetadataOf(status, key);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string TextOf(std::string_view field, std::string_view problem) {
  return std::string(field).append(": ").append(problem);
}

// Does the same as maxsim::WithMessage (base/text.h), which the installed archive of the client does not contain.
absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), absl::string_view(message.data(), message.size()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

// Returns the status with the field and problem of `request`, and the message "FIELD: PROBLEM". Keeps its code and
// other payloads.
absl::Status Rendered(const absl::Status& status, const google_rpc::BadRequest& request) {
  const google_rpc::BadRequest::FieldViolation& violation = request.field_violations(0);
  absl::Status rendered = WithMessage(status, TextOf(violation.field(), violation.description()));
  SetPayload(request, kBadRequestTypeUrl, rendered);
  return rendered;
}

// Returns an error about a field. The error has no reason yet.
absl::Status AboutField(absl::StatusCode code, std::string_view field, std::string_view problem) {
  google_rpc::BadRequest request;
  google_rpc::BadRequest::FieldViolation& violation = *request.add_field_violations();
  violation.set_field(std::string(field));
  violation.set_description(std::string(problem));
  absl::Status status(code, TextOf(field, problem));
  SetPayload(request, kBadRequestTypeUrl, status);
  return status;
}

}  // namespace

absl::Status FieldError(absl::StatusCode code, std::string_view reason, std::string_view field,
                        std::string_view problem) {
  absl::Status status = AboutField(code, field, problem);
  SetReason(reason, status);
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view problem) {
  return FieldError(absl::StatusCode::kInvalidArgument, kReasonInvalidField, field, problem);
}

absl::Status InvalidField(std::string_view field, std::string_view problem, const Limit& limit) {
  absl::Status status = AboutField(absl::StatusCode::kInvalidArgument, field, problem);
  google_rpc::ErrorInfo info;
  info.set_reason(std::string(kReasonLimitExceeded));
  info.set_domain(kDomain);
  (*info.mutable_metadata())[kLimit] = std::to_string(limit.max);
  if (limit.value.has_value()) (*info.mutable_metadata())[kValue] = std::to_string(*limit.value);
  if (!limit.key.empty()) (*info.mutable_metadata())[kLimitKey] = std::string(limit.key);
  SetPayload(info, kErrorInfoTypeUrl, status);
  return status;
}

void SetReason(std::string_view reason, absl::Status& status) {
  google_rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  SetPayload(info, kErrorInfoTypeUrl, status);
}

void SetPartlyDeleted(uint64_t num_deleted, absl::Status& status) {
  google_rpc::ErrorInfo info;
  info.set_reason(std::string(kReasonPartlyDeleted));
  info.set_domain(kDomain);
  (*info.mutable_metadata())[kNumDeleted] = std::to_string(num_deleted);
  SetPayload(info, kErrorInfoTypeUrl, status);
}

std::optional<uint64_t> NumDeletedOf(const absl::Status& status) { return NumberOf(status, kNumDeleted); }

std::string FieldOf(const absl::Status& status) {
  const auto request = PayloadOf<google_rpc::BadRequest>(status, kBadRequestTypeUrl);
  return request.field_violations().empty() ? std::string() : request.field_violations(0).field();
}

std::string ReasonOf(const absl::Status& status) { return InfoOf(status).reason(); }

std::optional<uint64_t> LimitOf(const absl::Status& status) { return NumberOf(status, kLimit); }

std::string LimitKeyOf(const absl::Status& status) { return MetadataOf(status, kLimitKey); }

absl::Status WithField(const absl::Status& status, std::string_view field) {
  auto request = PayloadOf<google_rpc::BadRequest>(status, kBadRequestTypeUrl);
  if (request.field_violations().empty())
    request.add_field_violations()->set_description(std::string(status.message()));
  request.mutable_field_violations(0)->set_field(std::string(field));
  return Rendered(status, request);
}

absl::Status WithAddition(const absl::Status& status, std::string_view addition) {
  return WithText(status, [addition](std::string_view text) { return std::string(text).append(addition); });
}

absl::Status WithText(const absl::Status& status, absl::FunctionRef<std::string(std::string_view)> change) {
  auto request = PayloadOf<google_rpc::BadRequest>(status, kBadRequestTypeUrl);
  const absl::string_view message = status.message();
  absl::Status changed = WithMessage(status, change(std::string_view(message.data(), message.size())));
  if (request.field_violations().empty()) return changed;
  google_rpc::BadRequest::FieldViolation& violation = *request.mutable_field_violations(0);
  violation.set_description(change(violation.description()));
  SetPayload(request, kBadRequestTypeUrl, changed);
  return changed;
}

}  // namespace maxsim::client
