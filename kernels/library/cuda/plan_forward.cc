#include <algorithm>

#include "kernels/library/cuda/forward.h"

namespace maxsim::library {
namespace {

// The desired number of thread blocks: several for each multiprocessor of today's largest devices.
constexpr int64_t kWantedBlocks = 2048;

constexpr int64_t CeilDiv(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

ForwardPlan PlanForward(const DeviceProblem& problem) {
  const int64_t max_tokens = std::max<int64_t>(problem.queries.max_tokens, 1);
  ForwardPlan plan;
  plan.num_warps = max_tokens <= 2 * kForwardWarpRows ? 2 : 4;
  plan.row_tiles = CeilDiv(max_tokens, plan.num_rows());
  plan.query_tiles = NumQueryTiles(max_tokens);
  plan.row_bytes = problem.queries.dim * static_cast<int64_t>(SizeOf(static_cast<ScalarType>(problem.queries.type)));
  plan.several_chains = problem.queries.dim > kChainColumns;
  const ForwardShared shared = ForwardSharedOf(plan.num_rows(), /*resident=*/true, plan.row_bytes);
  plan.resident = static_cast<int64_t>(plan.num_rows()) * shared.query_pitch <= kMaxResidentBytes;
  const int64_t units = problem.queries.num_sequences * plan.row_tiles;
  if (units == 0 || problem.list_length == 0) return plan;
  const int64_t splits = std::clamp<int64_t>(CeilDiv(kWantedBlocks, units), 1, problem.list_length);
  plan.documents_per_block = CeilDiv(problem.list_length, splits);
  plan.splits = CeilDiv(problem.list_length, plan.documents_per_block);
  plan.num_blocks = units * plan.splits;
  return plan;
}

}  // namespace maxsim::library
