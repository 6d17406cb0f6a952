#include "loadtest/run/first_request.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "client/status.h"

namespace maxsim::loadtest {
namespace {

// The server may ask for a delay of microseconds. If the request were repeated sooner than this, it would itself be
// load.
constexpr absl::Duration kShortestWait = absl::Milliseconds(20);
// `stop` is seen within this time.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

}  // namespace

FirstRequestResult SendFirstRequest(const FirstRequestOptions& options, const PreparedRequest& request,
                                    client::CallQueue& queue, const std::function<void(const absl::Status&)>& on_busy,
                                    const std::atomic<bool>& stop) {
  FirstRequestResult result;
  const absl::Time give_up = MonotonicNow() + options.busy_time_limit;
  while (true) {
    client::CallQueue::Answer answer;
    queue.Start(request.encoded(), static_cast<uint64_t>(result.sent));
    ++result.sent;
    if (queue.Next(MonotonicNow() + options.timeout, answer) != client::CallQueue::Event::kAnswer) {
      result.status = absl::DeadlineExceededError("no answer");
      return result;
    }
    result.status = answer.status.ok() ? request.Check(answer.response) : answer.status;
    if (!absl::IsResourceExhausted(answer.status)) return result;
    ++result.rejected;
    const std::optional<absl::Duration> retry_after = client::RetryAfter(answer.status);
    if (!retry_after.has_value()) return result;  // no delay: the request is too large for this server
    if (result.rejected == 1) on_busy(answer.status);
    const absl::Time next = MonotonicNow() + std::max(*retry_after, kShortestWait);
    if (next >= give_up) {
      result.status = absl::ResourceExhaustedError(
          absl::StrCat("the server is busy, asked ", result.sent, " times and waited for at most ",
                       absl::FormatDuration(options.busy_time_limit), ": ", answer.status.message()));
      return result;
    }
    for (absl::Time now = MonotonicNow(); now < next; now = MonotonicNow()) {
      if (stop.load(std::memory_order_relaxed)) {
        result.status = absl::CancelledError("stopped while the server was busy");
        return result;
      }
      absl::SleepFor(std::min(next - now, kLongestSleep));
    }
  }
}

}  // namespace maxsim::loadtest
