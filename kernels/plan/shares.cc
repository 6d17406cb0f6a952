#include "kernels/plan/shares.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/score.h"

namespace maxsim {
namespace {

// Returns the number of thread blocks in a team (thread blocks that share documents). Returns 1 if `grid` thread blocks
// cannot form teams that have room for their candidates. The function chooses the fewest teams that leave as few thread
// blocks as possible without a team.
int32_t TeamBlocks(int64_t grid, int64_t num_row_tiles, const StreamCandidates& candidates) {
  if (candidates.regular == 0 || candidates.total == 0 || candidates.total > kMaxTeamCandidates) return 1;
  // A team may have candidates of two row tiles, but a work unit has candidates of one only. With this many candidates,
  // kTeamUnits work units are enough wherever the row tile ends.
  const int64_t room =
      num_row_tiles == 1 ? 32 * kTeamUnits : std::min<int64_t>(32 * (kTeamUnits - 1) + 1, candidates.regular);
  int64_t best = 1, most_blocks = 0;
  for (int64_t teams = CeilDiv(candidates.total, room); teams <= grid / 2 && most_blocks < grid; ++teams) {
    const int64_t blocks = grid / teams;
    if (teams * blocks <= most_blocks) continue;
    best = blocks;
    most_blocks = teams * blocks;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

int64_t SpreadTokens(const int64_t* offsets, int64_t num_documents) {
  if (num_documents == 0 || offsets[num_documents] == 0) return 0;
  const auto num_tokens = static_cast<double>(offsets[num_documents]);
  const double mean = num_tokens / static_cast<double>(num_documents);
  double squares = 0;
  for (int64_t n = 0; n < num_documents; ++n) {
    const double tokens = std::min(static_cast<double>(offsets[n + 1] - offsets[n]), kMaxSpreadMeans * mean);
    squares += tokens * tokens;
  }
  return static_cast<int64_t>(std::max(squares / num_tokens - mean, 0.0));
}

StreamShares PlanStreamShares(const ScorePlan& plan, const StreamCandidates& candidates, const StreamTuning& tuning) {
  // The sizes of claims were measured on an H200 (docs/lab/2026-11-24-kernels.md). The documents of a claim are
  // looked up while those of the previous claims are read. So reading the previous claims should take at least as
  // long as a look-up takes when the memory is busy. Bytes are rounded up to whole documents.
  constexpr int64_t kCoarseBytes = 130 << 10;
  constexpr int64_t kFineBytes = 64 << 10;
  // If thread blocks have few candidates or few bytes, all candidates are assigned. Claims would then cost more than
  // unequal shares do, because thread blocks with more work use the bandwidth that the others leave.
  constexpr int64_t kFewCandidates = 16;
  constexpr int64_t kFewBytes = 2 << 20;
  // This many bytes of a thread block's share are left open, that is, to be claimed: but at least a sixteenth of the
  // share and at most a quarter.
  constexpr int64_t kOpenBytes = 1000 << 10;
  // If documents are unequal, kOpenSpreads times their spread, but at most half of the share, is left to be claimed.
  // Claims from small shares then have kLeastClaimBytes, the smallest size with which their documents are looked up
  // in time.
  constexpr int64_t kLeastClaimBytes = 24 << 10;
  constexpr int64_t kOpenSpreads = 8;
  StreamShares shares;
  const int64_t total = shares.total = candidates.total;
  const int64_t grid = std::clamp<int64_t>(total, 1, plan.grid());
  const int64_t mean_bytes = std::max<int64_t>(candidates.mean_tokens * plan.row_bytes, 1);
  const int64_t share_bytes = total * mean_bytes / grid;
  const bool small = total < grid * kFewCandidates || share_bytes < kFewBytes;
  const bool teams =
      tuning.teams >= 0 ? tuning.teams > 0 : tuning.assigned_percent < 0 && small && TeamsAreSooner(plan, candidates);
  if (teams) shares.team_blocks = TeamBlocks(plan.grid(), plan.num_row_tiles, candidates);
  if (shares.team_blocks > 1) {
    const int32_t num_teams = plan.grid() / shares.team_blocks;
    shares.blocks = num_teams * shares.team_blocks;
    shares.assigned = total;
    shares.each = total / num_teams;
    shares.extra_until = static_cast<int32_t>(total % num_teams);
    return shares;
  }
  shares.blocks = static_cast<int32_t>(grid);
  // If query rows lie in shared memory, a thread block must empty its pipeline when it goes on to another row tile
  // (other query rows). Then no candidates are left to be claimed, unless documents are unequal.
  const bool changes = plan.num_row_tiles > 1 && plan.row_bytes > kStreamRegisterRowBytes;
  int64_t open_bytes = small || changes ? 0 : std::clamp(kOpenBytes, share_bytes / 16, share_bytes / 4);
  const bool unequal = IsUnequal(plan, candidates, grid);
  if (unequal) {
    open_bytes =
        std::max(open_bytes, std::min(kOpenSpreads * candidates.spread_tokens * plan.row_bytes, share_bytes / 2));
  }
  int64_t open = open_bytes * grid / mean_bytes;
  if (tuning.assigned_percent >= 0) open = total - total * std::min(tuning.assigned_percent, 100) / 100;
  open = std::min(open, total);
  shares.assigned = total - open;
  shares.each = shares.assigned / grid;
  shares.extra_until = static_cast<int32_t>(shares.assigned % grid);
  const auto claim = [&](int64_t usual_bytes, int32_t tuned) {
    const int64_t bytes = small && unequal ? kLeastClaimBytes : usual_bytes;
    const int64_t of_claim = tuned > 0 ? tuned : (bytes + mean_bytes - 1) / mean_bytes;
    return static_cast<int32_t>(std::clamp<int64_t>(of_claim, 1, 32));
  };
  shares.coarse = claim(kCoarseBytes, tuning.coarse);
  shares.fine = std::min(claim(kFineBytes, tuning.fine), shares.coarse);
  // Fine claims take the last part of the open candidates: as many as two coarse claims of every thread block would
  // take, but at most a quarter of all open candidates.
  const int64_t last = std::min(open / 4, 2 * grid * shares.coarse);
  shares.coarse_claims = (open - last) / shares.coarse;
  return shares;
}

std::string StreamShares::ToString() const {
  if (team_blocks > 1) return absl::StrCat(total, " candidates, assigned to teams of ", team_blocks);
  return absl::StrCat(total, " candidates, ", assigned, " assigned, ", coarse_claims, " claims of ", coarse,
                      ", then of ", fine);
}

}  // namespace maxsim
