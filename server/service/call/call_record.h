// Records a finished call: a count in the metrics, the end of its span, and a log line if it was slow. All three show
// the status that the client got. So the port (the code in server/grpc or server/http that answers the client) writes
// the record, and not the service: after the service has succeeded, the port may still have to answer with an error,
// for example because there is no memory to format the answer.
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

// Everything that is recorded about a call, except its status.
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

// The record of one call. Fill and Write may run on different threads.
class CallRecord {
 public:
  CallRecord() = default;
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  // Replaces what was filled in before.
  void Fill(FinishedCall&& call) { call_ = std::move(call); }

  // Replaces only the span, for a call that reaches no service.
  void SetSpan(tracing::Span span) { call_.span = std::move(span); }

  // Sets the end of the call's duration to now. Call it when the answer is ready, if Write must wait until it is known
  // whether the client got the answer.
  void EndTime();

  // Writes the record with the status that the client gets. Later calls do nothing. Does not throw: without memory for
  // the span or the log line, leaves it out, and still counts the call.
  void Write(const absl::Status& status);

 private:
  FinishedCall call_;
  absl::Time end_ = absl::InfiniteFuture();  // a time of MonotonicNow(); if infinite, the duration ends at Write
};

// A service calls this just before it answers a call with `status`. If the port has given a record, fills it. Otherwise
// writes the record at once.
void Record(const CallContext& context, FinishedCall&& call, const absl::Status& status);

// Records a call without timings or log line, and ends the call's span.
void Record(CallContext& context, Metrics* metrics, const absl::Status& status);

// Logs requests: all at debug level, slow ones as warnings. Thread-safe.
class RequestLog {
 public:
  // Requests that take `slow_request` or longer are slow; with zero, none is slow. Writes at most one warning per 100
  // ms.
  explicit RequestLog(absl::Duration slow_request) : slow_request_(slow_request) {}

  void Write(const FinishedCall& call, const absl::Status& status, absl::Time now);

 private:
  // Returns true if the caller may write a warning now. One of several may.
  bool TakeSlowLine(absl::Time now);

  const absl::Duration slow_request_;
  std::atomic<int64_t> next_slow_line_us_{0};  // MonotonicNow() in us since the epoch
};

}  // namespace maxsim::service
