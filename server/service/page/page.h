// Chooses the results of a ranking by offset, top_k and min_score.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/limits.h"

namespace maxsim::service {

struct Page {
  int64_t offset = 0;                                         // ranks before the first result
  int64_t top_k = 0;                                          // results at most
  float min_score = -std::numeric_limits<float>::infinity();  // results with lower scores are left out

  // Returns the number of best candidates that must be ranked for the page.
  int64_t num_ranked() const { return offset + top_k; }
};

// A range of candidates in rank order, by their indices.
struct RankRange {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// Returns the page of a request, which must have passed CheckPage.
Page PageOf(const v1::RerankRequest& request, const RequestLimits& limits);

// Returns INVALID_ARGUMENT if offset + top_k or min_score is out of range.
absl::Status CheckPage(const v1::RerankRequest& request, const RequestLimits& limits);

// Returns which of a query's best `num_ranked` candidates are on the page. `score_of` returns the score of a candidate
// (0 is the best one) as the answer shows it.
template <typename ScoreOf>
RankRange RangeOnPage(const Page& page, size_t num_ranked, ScoreOf score_of) {
  RankRange range{.begin = std::min(static_cast<size_t>(page.offset), num_ranked), .end = num_ranked};
  while (range.end > range.begin && score_of(range.end - 1) < page.min_score) --range.end;
  return range;
}

}  // namespace maxsim::service
