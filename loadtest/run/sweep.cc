#include "loadtest/run/sweep.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace maxsim::loadtest {
namespace {

constexpr double kMaxRejectedShare = 0.001;
constexpr double kLowestShare = 1e-3;  // lowest rate, as a share of the first
constexpr double kHighestRate = 1e7;

}  // namespace

std::string WhyNotHeld(const RunResult& result, absl::Duration target_p99) {
  const auto requests = static_cast<double>(result.counts.requests());
  if (result.counts.errors > 0) return absl::StrFormat("%d errors", result.counts.errors);
  if (result.counts.unsent > 0) return absl::StrFormat("%d requests could not be sent", result.counts.unsent);
  if (static_cast<double>(result.counts.rejected) > kMaxRejectedShare * requests) {
    return absl::StrFormat("%.2f %% rejected", 100 * static_cast<double>(result.counts.rejected) / requests);
  }
  if (result.counts.answered == 0) return "no answer";
  const int64_t p99_ns = result.latency.PercentileNs(0.99);
  if (p99_ns > absl::ToInt64Nanoseconds(target_p99)) {
    return absl::StrFormat("p99 %s", absl::FormatDuration(absl::Microseconds(p99_ns / 1000)));
  }
  return "";
}

absl::StatusOr<SweepResult> FindHighestRate(const SweepOptions& options,
                                            const std::function<absl::StatusOr<RunResult>(double rate)>& measure,
                                            const std::function<void(const SweepStep&)>& on_step) {
  SweepResult sweep;
  double held = 0, failed = INFINITY;
  double rate = options.first_rate;
  while (rate >= options.first_rate * kLowestShare && rate <= kHighestRate) {
    absl::StatusOr<RunResult> result = measure(rate);
    if (!result.ok()) {
      if (sweep.steps.empty()) return result.status();
      sweep.converged_reason = std::string(result.status().message());
      return sweep;
    }
    SweepStep step{.rate = rate, .held = false, .reason = WhyNotHeld(*result, options.target_p99), .result = {}};
    step.held = step.reason.empty();
    step.result = *std::move(result);
    if (step.held) {
      held = rate;
      sweep.best = static_cast<int>(sweep.steps.size());
    } else {
      failed = rate;
      sweep.client_bound = step.result.client_bound;
      sweep.client_bound_reason =
          sweep.client_bound ? absl::StrFormat("at %g requests/s, %s", rate, step.result.client_bound_reason) : "";
    }
    sweep.steps.push_back(std::move(step));
    on_step(sweep.steps.back());
    if (std::isinf(failed)) {
      rate *= 2;
    } else if (held == 0) {
      rate /= 2;
    } else if (failed <= (1 + options.precision) * held) {
      sweep.converged = true;
      return sweep;
    } else {
      rate = (held + failed) / 2;
    }
  }
  sweep.converged_reason = sweep.best < 0
                               ? absl::StrFormat("no rate from %g down to a thousandth of it held", options.first_rate)
                               : absl::StrFormat("rates above %g are not tried", kHighestRate);
  return sweep;
}

}  // namespace maxsim::loadtest
