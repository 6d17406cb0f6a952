#include "kernels/plan/cost_model.h"

#include <algorithm>
#include <cmath>

#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/shares.h"

namespace maxsim {
namespace {

// All figures of this file were measured on one H200; docs/lab/2026-11-24-kernels.md says how well they predict.

// TilePace says how long a tiling (a kernel with its tile sizes) takes to score one token with one row tile at d = 128.
// The unit is the time that the memory takes to deliver the token.
struct TilePace {
  ScoreTile tile;
  double pace;
};
constexpr TilePace kTilePaces[] = {
    {ScoreTile::kRows32Narrow, 1.35}, {ScoreTile::kRows32, 1.35},  {ScoreTile::kRows64, 1.5},
    {ScoreTile::kRows128, 2.2},       {ScoreTile::kWide128, 1.15}, {ScoreTile::kWide256, 1.5},
    {ScoreTile::kStream32, 1.05},     {ScoreTile::kDeep128, 1.45}, {ScoreTile::kDeep256, 1.9},
};

// Wide and deep kernels begin and end later than the stream kernel, by kLaterStartBytes. Wide and deep kernels take
// kClaimingBytes longer if thread blocks have to claim candidates. Both times are given as the bytes that the memory
// delivers in them, at 4.6 MB per microsecond.
constexpr double kLaterStartBytes = 17e6;
constexpr double kClaimingBytes = 9e6;
// Each document costs the stream kernel the time of reading this many bytes, in addition to its rows, however narrow
// the rows are.
constexpr double kDocumentBytes = 3500;
// With several query tiles (of 32 tokens), the stream kernel reads most documents from the L2 cache. Its time is then
// multiplied by one of these factors, which depends on where it keeps query rows: rows in shared memory are read again
// for every tile.
constexpr double kStreamPaceOfRegisterRows = 0.9;
constexpr double kStreamPaceOfSharedRows = 1.2;

// These paces are in bytes per microsecond: that of the memory, and that of one thread block with its query rows in
// registers or in shared memory.
constexpr double kMemoryPace = 4466e3;
constexpr double kBlockPaceOfRegisterRows = 40e3;
constexpr double kBlockPaceOfSharedRows = 35e3;
// Teams begin and end this many microseconds later than thread blocks on their own.
constexpr double kTeamsLater = 2;
// kShareDeviations says how far the largest share is above the mean share, in standard deviations of a share. If
// blocks claim candidates, kClaimDeviations says how far the longest of the documents that are scored last is above
// the mean document, in standard deviations of a document.
constexpr double kShareDeviations = 1.5;
constexpr double kClaimDeviations = 3;

// Documents count as unequal if their spread (SpreadTokens) takes at least kUnequalBytes and each thread block has at
// least kUnequalCandidates documents on average.
constexpr int64_t kUnequalBytes = 64 << 10;
constexpr int64_t kUnequalCandidates = 7;

// Ordering the candidates takes kOrderingCycles cycles (some 5 us), and one more cycle for every candidate of a row
// tile.
constexpr int64_t kOrderingCycles = 7000;
// Scoring one token with a row tile of 256 rows takes one cycle per kBytesOfCycle bytes of the token, but at least
// kLeastCyclesOfToken cycles, because its maxima take that long.
constexpr int64_t kBytesOfCycle = 16;
constexpr int64_t kLeastCyclesOfToken = 7;
// Ordering is worthwhile only if the longest document is more than 1 / kLongestOfShare of a thread block's share.
constexpr int64_t kLongestOfShare = 25;

double PaceOf(ScoreTile tile) {
  for (const TilePace& entry : kTilePaces) {
    if (entry.tile == tile) return entry.pace;
  }
  return 0;
}

}  // namespace

double EstimatedReads(absl::Span<const QueryGroupShape> groups, ScoreTile tile) {
  double reads = 0;
  for (const QueryGroupShape& group : groups) {
    double of_candidate = PaceOf(tile) * static_cast<double>(RowTilesOf(group, tile));
    if (EndsInHalfTile(QueryTilesOf(group, tile), tile)) of_candidate += PaceOf(ScoreTile::kWide128) - PaceOf(tile);
    reads += of_candidate * static_cast<double>(group.num_candidates);
  }
  return reads;
}

// The constants that StreamIsSooner uses were fitted to calls of 8 to 12,000 documents of 4 to 3,600 tokens with up to
// 46 queries of 4 to 1,700 tokens, in rows of 48 to 1,536 bytes.
bool StreamIsSooner(int64_t row_bytes, absl::Span<const QueryGroupShape> groups, ScoreTile other, double document_bytes,
                    int32_t num_sms) {
  const double bytes = document_bytes + kDocumentBytes;
  const double pace = row_bytes > kStreamRegisterRowBytes ? kStreamPaceOfSharedRows : kStreamPaceOfRegisterRows;
  const double later = kLaterStartBytes + (RowTileCandidates(groups, other) > num_sms ? kClaimingBytes : 0);
  return pace * EstimatedReads(groups, ScoreTile::kStream32) * bytes < EstimatedReads(groups, other) * bytes + later;
}

bool IsUnequal(const ScorePlan& plan, const StreamCandidates& candidates, int64_t grid) {
  return candidates.spread_tokens * plan.row_bytes >= kUnequalBytes && candidates.total >= grid * kUnequalCandidates;
}

bool TeamsAreSooner(const ScorePlan& plan, const StreamCandidates& candidates) {
  const auto mean = static_cast<double>(candidates.mean_tokens);
  const double deviation = std::sqrt(static_cast<double>(candidates.spread_tokens) * mean);
  const double share = static_cast<double>(candidates.total) / plan.grid();
  const double most_tokens =
      IsUnequal(plan, candidates, plan.grid())
          ? (share + 1) * mean + kClaimDeviations * deviation
          : std::ceil(share) * mean + kShareDeviations * deviation * std::sqrt(std::max(share, 1.0));
  const double pace = plan.row_bytes > kStreamRegisterRowBytes ? kBlockPaceOfSharedRows : kBlockPaceOfRegisterRows;
  const double all_tokens = static_cast<double>(candidates.total) * mean;
  return most_tokens * plan.row_bytes / pace > all_tokens * plan.row_bytes / kMemoryPace + kTeamsLater;
}

// OrderingIsWorthwhile compares the time that ordering takes with the time that it saves: without it a thread block may
// end later than the others by once or twice the difference between the longest document and the mean one.
bool OrderingIsWorthwhile(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens) {
  const int64_t share = total * std::max<int64_t>(mean_tokens, 1) / plan.grid();
  const int64_t cycles_of_token = std::max<int64_t>(plan.row_bytes / kBytesOfCycle, kLeastCyclesOfToken);
  const int64_t cycles =
      (longest_tokens - mean_tokens) * cycles_of_token * TraitsOf(plan.tile).rows / TraitsOf(ScoreTile::kWide256).rows;
  return total > plan.grid() && cycles >= kOrderingCycles + total / plan.num_row_tiles &&
         longest_tokens * kLongestOfShare > share;
}

}  // namespace maxsim
