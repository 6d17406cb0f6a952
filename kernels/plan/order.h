// Deciding whether and how the candidates of a call are ordered before a wide or deep kernel scores them.
#pragma once

#include <cstdint>

#include "kernels/plan/score.h"

namespace maxsim {

// If candidates differ in length and a thread block of a wide or deep kernel has few of them, thread blocks that take
// them as they come would end far apart. So a kernel first orders the candidates, longest documents first, and divides
// them into work units with about equally many tokens, which thread blocks claim one by one
// (kernels/cuda/candidates/order_candidates.h).
//
// kMaxOrderedCandidates is the most candidates of a list that is ordered. kMaxPlacedCandidates is the room for all
// lists together; each takes its candidates and kOrderEntries more (kernels/cuda/score/hopper_common/params.h).
inline constexpr int64_t kMaxOrderedCandidates = 16384;
inline constexpr int64_t kMaxPlacedCandidates = 65536;
inline constexpr int32_t kMaxEarlyOctets = 0x3fffffff;

struct OrderPlan {
  // The token octets of a work unit: a power of two, at least 32. 0 means that candidates are taken as they come.
  int32_t unit_octets = 0;
  // A thread block claims ahead until it has this many token octets, at most kMaxEarlyOctets.
  int32_t early_octets = 0;
};

// Plans the order of `total` candidates of all row tiles. Documents have `mean_tokens` tokens on average, and the
// longest has `longest_tokens`. Candidates are taken as they come if ordering would take longer than it saves, unless
// `always` is set.
OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always);

}  // namespace maxsim
