#include "server/service/call/call_record.h"

#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "server/observability/logging.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

// The minimum time between two warnings about slow requests. Under overload every request is slow, and thousands of log
// lines would slow the server further.
constexpr absl::Duration kSlowLineInterval = absl::Milliseconds(100);

int64_t WholeMicroseconds(double us) { return static_cast<int64_t>(us); }

}  // namespace

void CallRecord::EndTime() { end_ = MonotonicNow(); }

void CallRecord::Write(const absl::Status& status) {
  if (call_.metrics == nullptr) return;
  const absl::Time now = std::min(end_, MonotonicNow());
  Metrics* const metrics = std::exchange(call_.metrics, nullptr);
  Guarded([&] {
    metrics->CountRequest(call_.method, status.code(), now - call_.arrival);
    return absl::OkStatus();
  }).IgnoreError();
  Guarded([&] {
    EndRerank(status, call_.timings, call_.queued, now, call_.span);
    if (call_.log != nullptr) call_.log->Write(call_, status, now);
    return absl::OkStatus();
  }).IgnoreError();
}

void Record(const CallContext& context, FinishedCall&& call, const absl::Status& status) {
  if (context.record != nullptr) return context.record->Fill(std::move(call));
  CallRecord record;
  record.Fill(std::move(call));
  record.Write(status);
}

void Record(CallContext& context, Metrics* metrics, const absl::Status& status) {
  Record(context,
         {.metrics = metrics, .method = context.method, .arrival = context.arrival, .span = std::move(context.span)},
         status);
}

void RequestLog::Write(const FinishedCall& call, const absl::Status& status, absl::Time now) {
  const absl::Duration duration = now - call.arrival;
  const bool slow = slow_request_ > absl::ZeroDuration() && duration >= slow_request_ && TakeSlowLine(now);
  if (!slow && !log::DebugEnabled()) return;
  const auto write = [&](spdlog::level::level_enum level, const char* event) {
    log::Write(level, event,
               {{"method", std::string(call.method)},
                {"request_id", call.request_id},
                {"collection", call.collection},
                {"code", CodeName(status.code())},
                {"duration_us", absl::ToInt64Microseconds(duration)},
                {"encode_us", WholeMicroseconds(call.timings.encode_us)},
                {"queue_us", WholeMicroseconds(call.timings.queue_us)},
                {"kernel_us", WholeMicroseconds(call.timings.kernel_us)},
                {"error", std::string(status.message())}});
  };
  if (slow) write(spdlog::level::warn, "slow_request");
  if (log::DebugEnabled()) write(spdlog::level::debug, "request");
}

bool RequestLog::TakeSlowLine(absl::Time now) {
  const int64_t now_us = absl::ToUnixMicros(now);
  const int64_t interval_us = absl::ToInt64Microseconds(kSlowLineInterval);
  int64_t next_us = next_slow_line_us_;
  if (now_us < next_us) return false;
  return next_slow_line_us_.compare_exchange_strong(next_us, now_us + interval_us);
}

}  // namespace maxsim::service
