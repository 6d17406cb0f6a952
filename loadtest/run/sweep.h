// Searches for the highest open-loop rate whose p99 stays within a target: doubles the rate until a run fails, then
// bisects.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "loadtest/run/run.h"

namespace maxsim::loadtest {

// One rate that was tried.
struct SweepStep {
  double rate = 0;
  bool held = false;
  std::string reason;  // why it did not hold
  RunResult result;
};

struct SweepResult {
  std::vector<SweepStep> steps;  // in the order in which they were tried
  int best = -1;                 // index of the step with the highest rate that held; -1: none held
  // True if the lowest rate that failed is above the best rate by at most the precision. Otherwise converged_reason
  // says why the limit was not found.
  bool converged = false;
  std::string converged_reason;  // why it has not converged
  // True when a rate above `best` failed because of the load tester: the server's own limit may be higher.
  bool client_bound = false;
  std::string client_bound_reason;
};

struct SweepOptions {
  double first_rate = 100;  // requests per second
  absl::Duration target_p99;
  double precision = 0.05;  // the search ends when the lowest rate that failed is at most this share above the best
};

// Returns "" if a run holds the target, or else the reason why not. A run holds the target if its p99 is at most
// `target_p99`, no request ended with an error, at most 0.1 % of the requests were rejected, and every request that was
// due was sent.
std::string WhyNotHeld(const RunResult& result, absl::Duration target_p99);

// Runs the search. `measure` runs one rate; `on_step` is called after each step. Tries no rates below a thousandth of
// the first. If `measure` fails at the first step, returns its error. If it fails later, also with CANCELLED, returns
// the steps so far as a result that has not converged.
absl::StatusOr<SweepResult> FindHighestRate(const SweepOptions& options,
                                            const std::function<absl::StatusOr<RunResult>(double rate)>& measure,
                                            const std::function<void(const SweepStep&)>& on_step);

}  // namespace maxsim::loadtest
