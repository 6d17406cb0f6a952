// The checks that a simulated world makes after each step and at its end.
#include "tests/unit/server/batching/simulation/world.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace maxsim::batching {

// Checks that no lane (thread that scores a batch) is idle while jobs wait. If a lane is free and no other thread is
// about to look at the queue, a sleeping lane must have been woken, or its wake-up must be on the way.
void World::CheckProgress() {
  if (!ledger_.has_waiting()) return;
  int busy = caller_.state == State::kScoring ? 1 : 0;
  bool asleep = false;
  for (const Thread& lane : lanes_) {
    busy += lane.state == State::kScoring ? 1 : 0;
    asleep |= lane.state == State::kSleeping && !lane.notified;
    if (lane.state == State::kReady || lane.state == State::kHoldingBack || lane.notified) return;
  }
  if (!asleep || busy >= options_.num_lanes) return;
  for (const auto& [at, wakeups] : in_flight_) {
    if (wakeups.lane || wakeups.lanes) return;
  }
  ledger_.Break(absl::StrCat(ledger_.num_waiting(), " jobs wait, a lane is free, and its thread sleeps"));
}

bool World::Over() const {
  if (!rest_failed_ || reaper_.state != State::kEnded || caller_.state != State::kIdle) return false;
  const auto ended = [](const Thread& lane) { return lane.state == State::kEnded; };
  const auto idle = [](const Thread& answerer) { return answerer.state == State::kIdle; };
  return std::all_of(lanes_.begin(), lanes_.end(), ended) && std::all_of(answerers_.begin(), answerers_.end(), idle);
}

// Checks that the metrics count a rejection "for every error that Submit returns or `done` gets" (Scheduler).
void World::CheckCounts() {
  double counted = 0;
  for (const absl::string_view line : absl::StrSplit(metrics_.Expose(), '\n')) {
    double value = 0;
    if (absl::StartsWith(line, "maxsim_rejections_total{") &&
        absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      counted += value;
    }
  }
  int64_t rejected = 0;
  for (size_t code = 0; code < tally_.answers.size(); ++code) {
    rejected += ledger_.refusals()[code] + (code == 0 ? 0 : ledger_.answers()[code]);
  }
  if (counted != static_cast<double>(rejected)) {
    ledger_.Break(absl::StrCat("the metrics count ", counted, " rejections, and there were ", rejected));
  }
  if (!dispatcher_.callers_done()) ledger_.Break("a caller counts as held up after the end");
}

}  // namespace maxsim::batching
