// Chooses the results of a ranking that the answer has, by RerankRequest.offset, top_k and min_score.
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

  // Returns how many of the best candidates must be known, so that the results of the page are among them.
  int64_t num_ranked() const { return offset + top_k; }
};

// A range of candidates in rank order, by their indices.
struct RankRange {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// Returns the page that a request asks for. The request must have passed CheckPage.
Page PageOf(const v1::RerankRequest& request, const RequestLimits& limits);

// Returns INVALID_ARGUMENT for more than limits.max_top_k ranks (offset + top_k), and for a min_score that is not
// finite.
absl::Status CheckPage(const v1::RerankRequest& request, const RequestLimits& limits);

// Returns which of the best `num_ranked` candidates of a query are on the page. `score_of` maps a candidate's index to
// its score as the answer shows it.
template <typename ScoreOf>
RankRange RangeOnPage(const Page& page, size_t num_ranked, ScoreOf score_of) {
  RankRange range{.begin = std::min(static_cast<size_t>(page.offset), num_ranked), .end = num_ranked};
  while (range.end > range.begin && score_of(range.end - 1) < page.min_score) --range.end;
  return range;
}

}  // namespace maxsim::service
