#include "server/tracing/collector_answer.h"

#include <algorithm>

#include "base/text.h"

namespace maxsim::tracing {
namespace {

constexpr size_t kEllipsisBytes = 3;  // appended by Printable to a text that it cuts

}  // namespace

absl::Status CollectorStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool is_known = code > 0 && code <= static_cast<int>(grpc::StatusCode::UNAUTHENTICATED);
  return absl::Status(is_known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      Printable(status.error_message(), kMaxCollectorErrorBytes - kEllipsisBytes));
}

uint64_t NumRefused(const opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse& response,
                    uint64_t num_spans) {
  const int64_t said = response.partial_success().rejected_spans();
  return said <= 0 ? 0 : std::min(static_cast<uint64_t>(said), num_spans);
}

}  // namespace maxsim::tracing
