// Counts rerank calls that were refused before the service saw them. It is internal to server/http.
#pragma once

#include "absl/status/status.h"
#include "server/observability/metrics.h"

namespace maxsim::http {

// Counts the rejection of a call in the metrics, by its reason. Does not count RESOURCE_EXHAUSTED with an HTTP status
// other than 429, nor codes without a reason, such as INTERNAL.
inline void CountRejectedCall(int http_status, const absl::Status& status, Metrics& metrics) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return metrics.CountRejection(Rejection::kInvalid);
    case absl::StatusCode::kResourceExhausted:
      if (http_status == 429) metrics.CountRejection(Rejection::kHttpFull);
      return;
    case absl::StatusCode::kDeadlineExceeded:
      return metrics.CountRejection(Rejection::kDeadline);
    case absl::StatusCode::kCancelled:
      return metrics.CountRejection(Rejection::kCancelled);
    case absl::StatusCode::kUnavailable:
      return metrics.CountRejection(Rejection::kShutdown);
    default:
      return;
  }
}

}  // namespace maxsim::http
