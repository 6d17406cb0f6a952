#include "kernels/plan/select.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/device_limits.h"

namespace maxsim {
namespace {

// Scores of a chunk: fewer cost more in waiting for one another than their reading takes.
constexpr int64_t kChunkScores = 8192;
// Up to so many a single block selects alone, and waits for nobody.
constexpr int64_t kLoneScores = 2 * kChunkScores;
// Groups for each result, at least.
constexpr int64_t kGroupsOfResult = 3;
// A chunk's list: scores in ascending order send up to 128 neighbours to one chunk.
constexpr int64_t kLeastListKeys = 256;

int64_t MostChunks(int64_t num_queries, const DeviceLimits& limits) {
  return std::clamp<int64_t>(limits.num_sms / std::max<int64_t>(num_queries, 1), 1, kMaxSelectChunks);
}

}  // namespace

SelectPlan PlanSelect(int64_t num_candidates, int64_t k, int64_t num_queries, const DeviceLimits& limits) {
  // Candidates that a block of 256 threads ranks, eight lanes each.
  constexpr int64_t kKeysRankedByBlock = 32;
  SelectPlan plan;
  if (num_candidates <= kRankAllCandidates) {
    plan.rank_blocks = static_cast<int32_t>(std::max<int64_t>(CeilDiv(num_candidates, kKeysRankedByBlock), 1));
    return plan;
  }
  const int64_t least_groups = kGroupsOfResult * k;
  int64_t chunks = 1;
  if (num_candidates > kLoneScores || least_groups > kSelectThreads) {
    chunks = std::max(CeilDiv(num_candidates, kChunkScores), CeilDiv(least_groups, kSelectThreads));
    // A thread should have a few scores to take the maximum of.
    chunks = std::min(chunks, CeilDiv(num_candidates, 2 * kSelectThreads));
  }
  chunks = std::min(chunks, MostChunks(num_queries, limits));
  int64_t groups = 32;
  while (groups * chunks < least_groups) groups *= 2;
  const bool bounded =
      groups <= kSelectThreads && groups * chunks <= std::min<int64_t>(kMaxSelectGroups, num_candidates / 4);
  plan.chunks = static_cast<int32_t>(chunks);
  plan.groups = bounded ? static_cast<int32_t>(groups) : 0;
  plan.list_keys = static_cast<int32_t>(kLeastListKeys + CeilDiv(5 * k, 2 * chunks));
  return plan;
}

int64_t MostSelectKeys(int64_t num_queries, int64_t num_results, const DeviceLimits& limits) {
  const int64_t chunks = std::max<int64_t>(limits.num_sms, num_queries);
  return (kLeastListKeys + 1) * chunks + 5 * CeilDiv(num_results, 2);
}

std::string SelectPlan::ToString() const {
  if (!large()) return absl::StrCat("ranking of all candidates on ", rank_blocks, " blocks");
  if (groups == 0) return absl::StrCat("selection by histograms on ", chunks, " blocks");
  return absl::StrCat("selection by the maxima of ", chunks, " x ", groups, " groups");
}

}  // namespace maxsim
