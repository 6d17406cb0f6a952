// The highest open-loop rate whose p99 stays under a target: doubling until it does not, then bisection.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "loadtest/run.h"

namespace maxsim::loadtest {

// One rate that was tried.
struct SweepStep {
  double rate = 0;
  bool held = false;
  std::string reason;  // why it did not hold
  RunResult result;
};

struct SweepResult {
  std::vector<SweepStep> steps;  // as they were tried
  int best = -1;                 // index of the highest rate that held; -1: none did
  // True when the lowest rate that failed is within the precision above `best`. Otherwise the reason says why the limit
  // was not found.
  bool converged = false;
  std::string converged_reason;  // when not
  // True when a rate above `best` failed because of the load tester: the server's own limit may be higher.
  bool client_bound = false;
  std::string client_bound_reason;
};

struct SweepOptions {
  double first_rate = 100;  // requests a second
  absl::Duration target_p99;
  double precision = 0.05;  // ends when the lowest rate that failed is at most this share above the best
};

// Does a run hold the target? p99 at most `target_p99`, no error, at most 0.1 % rejected, everything sent. Otherwise
// says why not.
std::string WhyNotHeld(const RunResult& result, absl::Duration target_p99);

// `measure` runs one rate; `on_step` hears of each step when it is done. Rates below a thousandth of the first are not
// tried. Errors are those of `measure`; after an error that comes later than the first step, CANCELLED among them, the
// result holds the steps so far and has not converged.
absl::StatusOr<SweepResult> FindHighestRate(const SweepOptions& options,
                                            const std::function<absl::StatusOr<RunResult>(double rate)>& measure,
                                            const std::function<void(const SweepStep&)>& on_step);

}  // namespace maxsim::loadtest
