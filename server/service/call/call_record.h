// Records a finished call: a count in the metrics, the end of its span, and a log line if it was slow. All three show
// the status that the client got. So the port (the code in server/grpc or server/http that answers the client) writes
// the record, and not the service: the port may have to answer with an error after the service has succeeded, for
// example when there is no memory to format the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/observability/metrics.h"
#include "server/service/call/call_context.h"
#include "server/service/call/call_spans.h"
#include "server/tracing/span.h"

namespace maxsim::service {

class RequestLog;

// Everything that is recorded about a call, except the status that the client gets.
struct FinishedCall {
  Metrics* metrics = nullptr;
  std::string_view method;  // name in the metrics; a string literal
  absl::Time arrival = {};
  tracing::Span span = {};
  // The rest is set for rerank calls only.
  CallTimings timings = {};
  absl::Time queued = absl::InfinitePast();
  RequestLog* log = nullptr;  // null if the call is not logged
  std::string request_id = {};
  std::string collection = {};
};

// Belongs to one call of a port. Fill and Write may run on different threads, one after the other.
class CallRecord {
 public:
  CallRecord() = default;
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  // Replaces what was filled in before.
  void Fill(FinishedCall&& call) { call_ = std::move(call); }

  // Replaces only the span, for a call that reaches no service.
  void SetSpan(tracing::Span span) { call_.span = std::move(span); }

  // Sets the end of the call's duration to now. Call it when the answer is ready but Write has to wait until it is
  // known whether the client got the answer.
  void EndTime();

  // Writes what was filled in, with the status that the client gets. Later calls do nothing. Does not throw: if there
  // is no memory for a span or a log line, it is left out, and the call is counted all the same.
  void Write(const absl::Status& status);

 private:
  FinishedCall call_;
  absl::Time end_ = absl::InfiniteFuture();  // a time of MonotonicNow(); if infinite, the duration ends at Write
};

// A service calls this just before it answers a call with `status`. Fills the record of the port that made the call, or
// writes the record at once if the port has none.
void Record(const CallContext& context, FinishedCall&& call, const absl::Status& status);

// Records a call that has neither timings nor a log line, and ends the span of its context.
void Record(CallContext& context, Metrics* metrics, const absl::Status& status);

// Logs requests: all of them at debug level, the slow ones as warnings. Thread-safe.
class RequestLog {
 public:
  // Requests that take `slow_request` or longer are slow; zero means none. Writes at most one warning per 100 ms.
  explicit RequestLog(absl::Duration slow_request) : slow_request_(slow_request) {}

  void Write(const FinishedCall& call, const absl::Status& status, absl::Time now);

 private:
  // Returns true if the caller may write a warning now, and false to all other concurrent callers.
  bool TakeSlowLine(absl::Time now);

  const absl::Duration slow_request_;
  std::atomic<int64_t> next_slow_line_us_{0};  // MonotonicNow() in us since the epoch
};

}  // namespace maxsim::service
