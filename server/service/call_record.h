// Records a finished call: one count in the metrics, the end of its span, a line of the log where it is slow. All three
// show the status that the client got. A port may still have to answer with an error after the service has succeeded,
// for example when there is no memory to format the answer, so the port writes the record.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/call_context.h"
#include "server/tracing/span.h"

namespace maxsim::service {

class RequestLog;

// Everything that is known of a call except how it ended.
struct FinishedCall {
  Metrics* metrics = nullptr;
  std::string_view method;  // as the metrics name it; static
  absl::Time arrival = {};
  tracing::Span span = {};
  // These are set for rerank calls only.
  v1::Timings timings = {};  // default values: the call was not scored
  absl::Time queued = absl::InfinitePast();
  RequestLog* log = nullptr;  // null: the call is not logged
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
  void Fill(FinishedCall call) { call_ = std::move(call); }

  // Replaces the span alone, for a call that reaches no service.
  void SetSpan(tracing::Span span) { call_.span = std::move(span); }

  // Writes what was filled in, with the status that the client gets. The second call and later ones do nothing.
  void Write(const absl::Status& status);

 private:
  FinishedCall call_;
};

// Called by a service just before it answers a call with `status`. Fills the record of the port that made the call.
// Writes the record at once where the port has none.
void Record(const CallContext& context, FinishedCall call, const absl::Status& status);

// Does so for calls that have neither timings nor a line in the log. Ends the context's span.
void Record(CallContext& context, Metrics* metrics, const absl::Status& status);

// Logs requests: all of them at debug level, the slow ones as warnings. Thread-safe.
class RequestLog {
 public:
  // Requests that take `slow_request` or longer are slow; zero: none are. At most one warning each 100 ms is written.
  explicit RequestLog(absl::Duration slow_request) : slow_request_(slow_request) {}

  void Write(const FinishedCall& call, const absl::Status& status, absl::Time now);

 private:
  // Returns true to the one caller that may write the next warning.
  bool TakeSlowLine(absl::Time now);

  const absl::Duration slow_request_;
  std::atomic<int64_t> next_slow_line_us_{0};  // of MonotonicNow(), since the epoch
};

}  // namespace maxsim::service
