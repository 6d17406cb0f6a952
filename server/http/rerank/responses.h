// Makes the responses of the HTTP port, and turns an exception into the error of a single request. Internal to
// server/http.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/guard.h"
#include "server/http/rerank/explain_json.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/text/http_status.h"
#include "server/http/transport/transport.h"
#include "server/observability/logging.h"
#include "server/service/call/status.h"

namespace maxsim::http {

inline Response Text(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

inline Response Json(int status, std::string body) {
  body += '\n';
  return {.status = status, .content_type = "application/json", .body = std::move(body)};
}

// `body` describes `status`. Retry-After is taken from the RetryInfo of `status`.
inline Response Error(int http_status, const absl::Status& status, std::string body) {
  Response response = Json(http_status, std::move(body));
  response.retry_after_s = (service::RetryDelayMs(status) + 999) / 1000;
  response.error = status;
  return response;
}

inline Response Error(int http_status, const absl::Status& status) {
  return Error(http_status, status, FormatError(status));
}

inline Response Error(const absl::Status& status) { return Error(ToHttpCode(status.code()), status); }

// Makes the response to an error of a service. Such an error names a field by its gRPC path, which is replaced by the
// name in the body.
inline Response ServiceError(const absl::Status& status) {
  return Error(ToHttpCode(status.code()), status, FormatServiceError(status));
}
inline Response ExplainError(const absl::Status& status) {
  return Error(ToHttpCode(status.code()), status, FormatExplainError(status));
}

// Logs an exception. If there is no memory for the log line either, the line is lost: an exception from the logger
// would end the process, because the threads that handle requests have no other handler.
inline void LogRequestException(const char* what) noexcept {
  try {
    log::Write(spdlog::level::err, "http_exception", {{"error", what}});
  } catch (const std::exception&) {
  }
}

// Runs `work`. If `work` throws, returns an error, so that only this request fails. If memory ran out, the error tells
// the client to retry.
template <typename Result, typename Work>
Result Guarded(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    LogRequestException("no memory");
    return NoMemory();  // does not allocate
  } catch (const std::exception& exception) {
    LogRequestException(exception.what());
    return absl::InternalError("internal error");
  }
}

}  // namespace maxsim::http
