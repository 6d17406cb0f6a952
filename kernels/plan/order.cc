#include "kernels/plan/order.h"

#include <algorithm>
#include <bit>

#include "kernels/plan/cost_model.h"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/score.h"

namespace maxsim {
OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always) {
  if (!always && !OrderingIsWorthwhile(plan, total, mean_tokens, longest_tokens)) return {};
  constexpr int64_t kUnitsOfShare = 16;
  const int64_t share = total * std::max<int64_t>(mean_tokens, 1) / plan.grid();
  const int64_t octets = share / kOctetTokens;
  const int64_t octets_of_unit = std::clamp<int64_t>(octets / kUnitsOfShare, 32, 128);
  OrderPlan order;
  order.unit_octets = static_cast<int32_t>(std::bit_floor(static_cast<uint64_t>(octets_of_unit)));
  order.early_octets = static_cast<int32_t>(std::min<int64_t>(octets / 8 * 7, kMaxEarlyOctets));
  return order;
}

}  // namespace maxsim
