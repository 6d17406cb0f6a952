// Tests whether two systems differ, given one value of each for every query. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace maxsim::evaluation {

// Differences of at most this count as 0, because they are rounding errors: measures are sums of at most some
// thousand fractions of 1.
inline constexpr double kTieTolerance = 1e-9;

// With up to kMaxExactDifferences nonzero differences all sign assignments are tried, else kNumRandomSigns random ones.
inline constexpr int kMaxExactDifferences = 20;
inline constexpr int64_t kNumRandomSigns = 100000;

struct PairedTest {
  int64_t num_queries = 0;
  int64_t num_wins = 0, num_ties = 0, num_losses = 0;  // queries with a difference above, at and below 0
  double mean_difference = 0;
  // The two-sided p-value of the paired randomisation test. The test gives each difference a sign. The p-value is the
  // share of all such assignments for which the sum of the differences is at least as far from 0 as the observed sum.
  // If assignments are drawn at random, this is (count + 1) / (drawn + 1). If no query has a difference, it is 1.
  double p_randomisation = 1;
  bool is_exact = true;  // all assignments were counted
  // The two-sided p-value of Student's paired t-test; nullopt for fewer than two queries, or if all differences are
  // 0.
  std::optional<double> p_t;
};

// Compares values of the queries, b - a. The spans must have the same size and finite values. Random draws depend
// only on `seed`, so the result is the same on every machine. Takes time of order a.size() / 8 x kNumRandomSigns.
PairedTest ComparePaired(absl::Span<const double> a, absl::Span<const double> b, uint64_t seed);

}  // namespace maxsim::evaluation
