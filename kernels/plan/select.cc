#include "kernels/plan/select.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/device_limits.h"

namespace maxsim {
namespace {

// The approximate number of scores in a split, the part of a query that one thread block selects from. With fewer
// scores, thread blocks wait for one another longer than they read.
constexpr int64_t kSplitScores = 8192;
// Up to this many scores, a single thread block selects alone and waits for no other.
constexpr int64_t kOneBlockScores = 2 * kSplitScores;
// There are at least this many buckets per result.
constexpr int64_t kBucketsOfResult = 3;
// A split's list has room for at least this many keys. If scores are in ascending order, up to 128 of the best
// candidates are neighbours in one split.
constexpr int64_t kLeastListKeys = 256;

int64_t MostSplits(int64_t num_queries, const DeviceLimits& limits) {
  return std::clamp<int64_t>(limits.num_sms / std::max<int64_t>(num_queries, 1), 1, kMaxSelectSplits);
}

}  // namespace

SelectPlan PlanSelect(int64_t num_candidates, int64_t k, int64_t num_queries, const DeviceLimits& limits) {
  // Number of candidates that a thread block of 256 threads ranks, with eight lanes for each.
  constexpr int64_t kKeysRankedByBlock = 32;
  SelectPlan plan;
  if (num_candidates <= kRankAllCandidates) {
    plan.rank_blocks = static_cast<int32_t>(std::max<int64_t>(CeilDiv(num_candidates, kKeysRankedByBlock), 1));
    return plan;
  }
  const int64_t least_buckets = kBucketsOfResult * k;
  int64_t splits = 1;
  if (num_candidates > kOneBlockScores || least_buckets > kSelectThreads) {
    splits = std::max(CeilDiv(num_candidates, kSplitScores), CeilDiv(least_buckets, kSelectThreads));
    // Each thread should take the maximum of at least a few scores.
    splits = std::min(splits, CeilDiv(num_candidates, 2 * kSelectThreads));
  }
  splits = std::min(splits, MostSplits(num_queries, limits));
  int64_t buckets = 32;
  while (buckets * splits < least_buckets) buckets *= 2;
  const bool bounded =
      buckets <= kSelectThreads && buckets * splits <= std::min<int64_t>(kMaxSelectBuckets, num_candidates / 4);
  plan.splits = static_cast<int32_t>(splits);
  plan.buckets = bounded ? static_cast<int32_t>(buckets) : 0;
  plan.list_keys = static_cast<int32_t>(kLeastListKeys + CeilDiv(5 * k, 2 * splits));
  return plan;
}

int64_t MostSelectKeys(int64_t num_queries, int64_t num_results, const DeviceLimits& limits) {
  const int64_t splits = std::max<int64_t>(limits.num_sms, num_queries);
  return (kLeastListKeys + 1) * splits + 5 * CeilDiv(num_results, 2);
}

std::string SelectPlan::ToString() const {
  if (!large()) return absl::StrCat("ranking of all candidates on ", rank_blocks, " thread blocks");
  if (buckets == 0) return absl::StrCat("selection by histograms on ", splits, " thread blocks");
  return absl::StrCat("selection by the maxima of ", splits, " x ", buckets, " buckets");
}

}  // namespace maxsim
