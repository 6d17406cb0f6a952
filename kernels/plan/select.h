// The plan of a top-k selection.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/device_limits.h"

namespace maxsim {

// If a query has at most kRankAllCandidates candidates, one kernel ranks all of them against each other. If it has
// more, the selection first finds a lower bound of the k-th best score, then gathers the candidates that reach the
// bound, and ranks only these.
//
// A query's scores are cut into *splits*, one per thread block, and a split into *buckets*. The scores of a bucket come
// from all parts of the query. The k-th largest of the buckets' maxima is a lower bound, because k buckets have a score
// that reaches it. With G buckets, about -G ln(1 - k / G) candidates reach the bound: 1.2 k if G = 3 k. If the buckets
// would be too small or too many, or if more candidates of a split reach the bound than its list can hold, histograms
// give the bound instead.
inline constexpr int64_t kRankAllCandidates = 4096;
// The most candidates of a call whose results one thread block selects
// (kernels/cuda/score/hopper_stream/single_launch_call.h).
inline constexpr int64_t kBlockSelectCandidates = 2048;
inline constexpr int32_t kMaxSelectSplits = 256;    // of a query
inline constexpr int32_t kMaxSelectBuckets = 8192;  // of a query
inline constexpr int32_t kSelectThreads = 1024;     // threads of a thread block; the most buckets of a split
inline constexpr int32_t kSelectBins = 2048;        // bins of a histogram
inline constexpr int32_t kSelectPasses = 6;         // histograms needed for 64-bit keys, 11 bits each
inline constexpr int32_t kSelectAlignment = 4;      // a query's scores begin at a multiple of this

struct SelectPlan {
  int32_t splits = 0;       // 0: every candidate is ranked against all others
  int32_t buckets = 0;      // buckets of a split: a power of two from 32 to kSelectThreads; 0: histograms, no buckets
  int32_t list_keys = 0;    // candidates that a split's list can hold
  int32_t rank_blocks = 0;  // thread blocks that rank all candidates, if splits is 0

  bool large() const { return splits > 0; }
  // Returns how many candidates the lists of all splits can hold in total.
  int64_t keys() const { return int64_t{splits} * list_keys; }
  std::string ToString() const;
};

// Plans the selection of the best k of `num_candidates` candidates of one query, in a call with `num_queries` queries
// of about this size.
SelectPlan PlanSelect(int64_t num_candidates, int64_t k, int64_t num_queries, const DeviceLimits& limits);

// Returns an upper bound of the sum of keys() over the plans of `num_queries` queries with `num_results` results in
// all.
int64_t MostSelectKeys(int64_t num_queries, int64_t num_results, const DeviceLimits& limits);

}  // namespace maxsim
