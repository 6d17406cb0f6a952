// Decides whether and how the candidates of a call are ordered before a wide or deep kernel scores them.
#pragma once

#include <cstdint>

#include "kernels/plan/score.h"

namespace maxsim {

// If documents differ in length and each thread block of a wide or deep kernel scores few of them, some thread blocks
// end long before others. To avoid this, another kernel first orders the candidates, longest documents first, and
// divides them into work units with about equally many tokens. Thread blocks claim these work units one by one
// (kernels/cuda/candidates/order_candidates.h).
//
// A list is ordered only if it has at most kMaxOrderedCandidates candidates. kMaxPlacedCandidates is the number of
// entries for all lists of a call; each list takes one entry per candidate and kOrderEntries more
// (kernels/cuda/score/hopper_common/params.h).
inline constexpr int64_t kMaxOrderedCandidates = 16384;
inline constexpr int64_t kMaxPlacedCandidates = 65536;
inline constexpr int32_t kMaxEarlyOctets = 0x3fffffff;

struct OrderPlan {
  // The size of a work unit in octets of tokens (eight tokens each): a power of two, at least 32. 0 means that
  // candidates are not ordered.
  int32_t unit_octets = 0;
  // A thread block claims work units ahead of time until it has claimed this many octets (eight tokens each). At most
  // kMaxEarlyOctets.
  int32_t early_octets = 0;
};

// Plans the order of `total` candidates of all row tiles. Documents have `mean_tokens` tokens on average, and the
// longest has `longest_tokens`. If ordering would take longer than it saves, the plan leaves the candidates in their
// own order, unless `always` is set.
OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always);

}  // namespace maxsim
