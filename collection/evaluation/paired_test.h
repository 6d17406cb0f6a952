// Tests whether two systems differ significantly, given each system's value (such as nDCG) for every query.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace maxsim::evaluation {

// Differences up to this count as 0: they are rounding errors.
inline constexpr double kTieTolerance = 1e-9;

// The randomisation test tries all assignments of signs for up to kMaxExactDifferences differences other than 0, and
// kNumRandomSigns random assignments for more.
inline constexpr int kMaxExactDifferences = 20;
inline constexpr int64_t kNumRandomSigns = 100000;

struct PairedTest {
  int64_t num_queries = 0;
  int64_t num_wins = 0, num_ties = 0, num_losses = 0;  // queries with a difference above, at and below 0
  double mean_difference = 0;
  // The two-sided p-value of the paired randomisation test: the share of all assignments of signs to the differences
  // for which their sum is at least as far from 0 as the observed sum. With random assignments it is (count + 1) /
  // (drawn + 1). 1 if all differences are 0.
  double p_randomisation = 1;
  bool is_exact = true;  // all assignments were counted
  // The two-sided p-value of Student's paired t-test; nullopt if there are fewer than two queries or all differences
  // are 0.
  std::optional<double> p_t;
};

// Tests the differences b[i] - a[i], where a[i] and b[i] are the two systems' values for query i. The spans must have
// the same size and finite values. The result is the same on every machine for the same `seed`.
PairedTest ComparePaired(absl::Span<const double> a, absl::Span<const double> b, uint64_t seed);

}  // namespace maxsim::evaluation
