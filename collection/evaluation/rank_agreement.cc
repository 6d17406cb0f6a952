#include "collection/evaluation/rank_agreement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <vector>

namespace maxsim::evaluation {
namespace {

// Returns each score's rank in ascending order, from 0. Equal scores all get the mean of their ranks.
std::vector<double> Ranks(absl::Span<const float> scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  std::vector<double> ranks(scores.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    const double mean = 0.5 * static_cast<double>(begin + end - 1);
    for (size_t idx = begin; idx < end; ++idx) ranks[order[idx]] = mean;
    begin = end;
  }
  return ranks;
}

}  // namespace

double Spearman(absl::Span<const float> a, absl::Span<const float> b) {
  const std::vector<double> ranks_a = Ranks(a);
  const std::vector<double> ranks_b = Ranks(b);
  const double mean = 0.5 * (static_cast<double>(a.size()) - 1);
  double variance_a = 0, variance_b = 0, covariance = 0;
  for (size_t idx = 0; idx < ranks_a.size(); ++idx) {
    variance_a += (ranks_a[idx] - mean) * (ranks_a[idx] - mean);
    variance_b += (ranks_b[idx] - mean) * (ranks_b[idx] - mean);
    covariance += (ranks_a[idx] - mean) * (ranks_b[idx] - mean);
  }
  if (variance_a == 0 || variance_b == 0) return variance_a == variance_b ? 1 : 0;
  return covariance / std::sqrt(variance_a * variance_b);
}

double Overlap(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b) {
  if (a.empty() && b.empty()) return 1;
  std::vector<uint64_t> sorted_a(a.begin(), a.end());
  std::vector<uint64_t> sorted_b(b.begin(), b.end());
  std::sort(sorted_a.begin(), sorted_a.end());
  std::sort(sorted_b.begin(), sorted_b.end());
  std::vector<uint64_t> shared;
  std::set_intersection(sorted_a.begin(), sorted_a.end(), sorted_b.begin(), sorted_b.end(), std::back_inserter(shared));
  return static_cast<double>(shared.size()) / static_cast<double>(std::max(a.size(), b.size()));
}

}  // namespace maxsim::evaluation
