#include "kernels/plan/order.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/score/hopper_common/config.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/score.h"

namespace maxsim {
OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always) {
  if (!always && !OrderingIsWorthwhile(plan, total, mean_tokens, longest_tokens)) return {};
  constexpr int64_t kChunksOfShare = 16;
  const int64_t share = total * std::max<int64_t>(mean_tokens, 1) / plan.grid();
  const int64_t groups = share / kGroupTokens;
  const int64_t of_chunk = std::clamp<int64_t>(groups / kChunksOfShare, 32, 128);
  OrderPlan order;
  order.chunk_groups = static_cast<int32_t>(std::bit_floor(static_cast<uint64_t>(of_chunk)));
  order.early_groups = static_cast<int32_t>(std::min<int64_t>(groups / 8 * 7, kMostEarlyGroups));
  return order;
}

}  // namespace maxsim
