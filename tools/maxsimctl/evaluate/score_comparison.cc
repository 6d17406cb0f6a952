#include "tools/maxsimctl/evaluate/score_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_set.h"

namespace maxsim::ctl {
namespace {

// Returns |difference| / scale. Returns 0 if the difference is 0, and infinity if the scale is 0 or the difference is
// not a number.
double Relative(double difference, double scale) {
  const double size = std::abs(difference);
  if (size == 0) return 0;
  const double relative = size / std::abs(scale);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

}  // namespace

void ScoreComparison::Add(absl::Span<const ReturnedDocument> answer, absl::Span<const ReferenceScore> reference,
                          int32_t top_k) {
  const std::vector<ReferenceHit> expected = ReferenceTopK(reference, top_k);
  absl::flat_hash_set<uint64_t> wanted;
  for (const ReferenceHit& hit : expected) wanted.insert(hit.position);
  ++num_queries;
  num_results += static_cast<int64_t>(answer.size());
  num_expected += static_cast<int64_t>(expected.size());
  for (size_t rank = 0; rank < answer.size(); ++rank) {
    const ReturnedDocument& hit = answer[rank];
    const ReferenceScore& expected_score = reference[hit.position];
    const double difference = static_cast<double>(hit.score) - expected_score.score;
    error_by_magnitude = std::max(error_by_magnitude, Relative(difference, expected_score.magnitude));
    if (expected_score.score != 0)
      error_by_score = std::max(error_by_score, Relative(difference, expected_score.score));
    if (rank < expected.size() && expected[rank].position == hit.position) ++num_in_place;
    if (rank > 0 && hit.score > answer[rank - 1].score) ++num_disordered;
    // Erases the position from `wanted`, so that a document that the server returned twice counts only once.
    if (wanted.erase(hit.position) == 1) {
      ++num_shared;
    } else if (!expected.empty() &&
               expected.back().score - expected_score.score <= 2 * kErrorLimit * expected_score.magnitude) {
      ++num_near_ties;
    }
  }
}

}  // namespace maxsim::ctl
