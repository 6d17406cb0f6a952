#include "client/retry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "client/status.h"

namespace maxsim::client {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() override { return MonotonicNow(); }
  void Sleep(absl::Duration duration) override { absl::SleepFor(duration); }
};

}  // namespace

absl::Status ValidateRetryOptions(const RetryOptions& options) {
  // Written so that NaN fails too.
  if (options.max_attempts < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_attempts is ", options.max_attempts, "; must be 1 or more"));
  }
  if (options.initial_backoff <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial_backoff is ", absl::FormatDuration(options.initial_backoff), "; must be more than 0"));
  }
  if (options.max_backoff < options.initial_backoff) {
    return absl::InvalidArgumentError(absl::StrCat("max_backoff is ", absl::FormatDuration(options.max_backoff),
                                                   ", less than initial_backoff, ",
                                                   absl::FormatDuration(options.initial_backoff)));
  }
  if (!(options.multiplier >= 1.0) || !std::isfinite(options.multiplier)) {
    return absl::InvalidArgumentError(absl::StrCat("multiplier is ", options.multiplier, "; must be 1 or more"));
  }
  if (!(options.jitter >= 0.0 && options.jitter <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat("jitter is ", options.jitter, "; must be between 0 and 1"));
  }
  return absl::OkStatus();
}

std::optional<absl::Duration> ParsePushback(std::string_view value) {
  int64_t milliseconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), milliseconds);
  if (error != std::errc() || end != value.data() + value.size() || milliseconds < 0) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

std::optional<absl::Duration> RetryState::NextDelay(const AttemptResult& result, absl::Time now,
                                                    absl::FunctionRef<double()> uniform) {
  ++attempts_;
  if (result.status.ok() || attempts_ >= options_.max_attempts) return std::nullopt;
  const std::optional<absl::Duration> retry_after = RetryAfter(result.status);
  switch (result.status.code()) {
    case absl::StatusCode::kUnavailable:
      break;
    case absl::StatusCode::kResourceExhausted:
      if (!retry_after.has_value() && !result.pushback_ms.has_value()) return std::nullopt;
      break;
    default:
      return std::nullopt;
  }

  absl::Duration delay;
  if (result.pushback_ms.has_value()) {
    const std::optional<absl::Duration> pushback = ParsePushback(*result.pushback_ms);
    if (!pushback.has_value()) return std::nullopt;
    delay = *pushback;
  } else {
    // The power may be infinite after many attempts; a Duration saturates, and the minimum holds.
    const double growth = std::pow(options_.multiplier, attempts_ - 1);
    delay = std::min(options_.initial_backoff * growth, options_.max_backoff);
    delay *= 1.0 + options_.jitter * (2.0 * uniform() - 1.0);
    delay = std::max(delay, retry_after.value_or(absl::ZeroDuration()));
  }
  if (now + delay >= deadline_) return std::nullopt;
  return delay;
}

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

double UniformRandom() {
  thread_local absl::InsecureBitGen generator;
  return absl::Uniform(generator, 0.0, 1.0);
}

absl::Status RunWithRetries(const RetryOptions& options, absl::Time deadline, Clock& clock,
                            absl::FunctionRef<double()> uniform, absl::FunctionRef<AttemptResult()> attempt) {
  RetryState state(options, deadline);
  while (true) {
    AttemptResult result = attempt();
    const std::optional<absl::Duration> delay = state.NextDelay(result, clock.Now(), uniform);
    if (!delay.has_value()) return std::move(result.status);
    clock.Sleep(*delay);
  }
}

}  // namespace maxsim::client
