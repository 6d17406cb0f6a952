// Whether and how the candidates of a call are ordered before a wide or deep kernel scores them.
#pragma once

#include <cstdint>

#include "kernels/plan/score.h"

namespace maxsim {

// Where candidates differ in length, and a thread block of a wide or deep kernel has few of them, thread blocks that
// take them as they come would end far apart. So a kernel orders them first, the longest documents at the beginning,
// and makes work units of about as many tokens, which thread blocks claim one by one
// (kernels/cuda/select/order_candidates.h).
//
// The limits are the most candidates of a list, and the room for all lists: their candidates and kOrderEntries a list
// (kernels/cuda/score/score_params.h).
inline constexpr int64_t kMostOrderedCandidates = 16384;
inline constexpr int64_t kMostPlacedCandidates = 65536;
inline constexpr int32_t kMostEarlyOctets = 0x3fffffff;

struct OrderPlan {
  int32_t unit_octets =
      0;  // token octets of a work unit: a power of two, 32 at least; 0: candidates are taken as they come
  int32_t early_octets = 0;  // a thread block claims ahead until it has so many token octets; kMostEarlyOctets at most
};

// Plans the order of `total` candidates of all row tiles, among documents of `mean_tokens`, of which the longest has
// `longest_tokens`.
// They are taken as they come where ordering would take longer than it saves, unless `always`.
OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always);

}  // namespace maxsim
