#include "kernels/plan_score.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/deep_layout.h"
#include "kernels/limits.h"

namespace maxsim {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Time that the row tiles of so many blocks take, in units of half a row tile.
int64_t HalfTilesOf(int64_t blocks, ScoreTile tile) {
  const int64_t of_tile = TraitsOf(tile).blocks();
  if (tile != ScoreTile::kWide256) return 2 * CeilDiv(blocks, of_tile);
  return blocks / of_tile * 2 + CeilDiv(blocks % of_tile, kHalfTileBlocks);
}

// Whether the last row tile of so many blocks is a half one of a wide kernel (kHalfTileBlocks).
bool EndsInHalfTile(int64_t blocks, ScoreTile tile) {
  const int64_t last = blocks % TraitsOf(tile).blocks();
  return tile == ScoreTile::kWide256 && last > 0 && last <= kHalfTileBlocks;
}

int64_t CountHalfTiles(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  int64_t tiles = 0;
  for (const ScoreGroup& group : groups) tiles += EndsInHalfTile(BlocksOf(group, tile), tile) ? 1 : 0;
  return tiles;
}

int64_t RowTilesOf(const ScoreGroup& group, ScoreTile tile) {
  return CeilDiv(BlocksOf(group, tile), TraitsOf(tile).blocks());
}

int64_t RowTiles(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  int64_t tiles = 0;
  for (const ScoreGroup& group : groups) tiles += RowTilesOf(group, tile);
  return tiles;
}

// Candidates of all row tiles.
int64_t RowTileCandidates(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  int64_t candidates = 0;
  for (const ScoreGroup& group : groups) candidates += RowTilesOf(group, tile) * group.num_candidates;
  return candidates;
}

// Time that a tiling takes for a token and a row tile, in units of the memory's own pace. Measured on an H200, d = 128:
// docs/performance.
double Pace(ScoreTile tile) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
    case ScoreTile::kRows32:
      return 1.35;
    case ScoreTile::kRows64:
      return 1.5;
    case ScoreTile::kRows128:
      return 2.2;
    case ScoreTile::kWide128:
      return 1.15;
    case ScoreTile::kWide256:
      return 1.5;
    case ScoreTile::kStream32:
      return 1.05;
    case ScoreTile::kDeep128:
      return 1.45;
    case ScoreTile::kDeep256:
      return 1.9;
  }
  return 0;
}

bool CanRun(ScoreTile tile, ScalarType type, int32_t dim, int64_t row_bytes, const DeviceLimits& limits) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
      return type != ScalarType::kF32 && row_bytes <= TraitsOf(tile).chunk_bytes;
    case ScoreTile::kRows32:
      return true;
    case ScoreTile::kRows64:
      return type != ScalarType::kF32;
    case ScoreTile::kRows128:
      // Its registers have no room for a second set of sums.
      return type == ScalarType::kI8 || (type != ScalarType::kF32 && dim <= kPieceColumns);
    case ScoreTile::kWide128:
    case ScoreTile::kWide256:
      return type != ScalarType::kF32 && row_bytes <= kWideMaxRowBytes && limits.hopper && limits.tensor_maps &&
             WideLayoutOf(1).total <= limits.shared_bytes_per_block &&
             WideLayoutOf(2).total <= limits.shared_bytes_per_block;
    case ScoreTile::kStream32:
      return type != ScalarType::kF32 && limits.hopper && StreamShapeOf(row_bytes).stages > 0 &&
             StreamShapeOf(row_bytes).Layout().total <= limits.shared_bytes_per_block;
    case ScoreTile::kDeep128:
    case ScoreTile::kDeep256:
      // A row's sums are of one piece; those of I8 always are.
      return type != ScalarType::kF32 && row_bytes > kWideMaxRowBytes && row_bytes <= kDeepMaxRowBytes &&
             limits.hopper && limits.tensor_maps &&
             DeepShapeOf(tile, row_bytes, limits.shared_bytes_per_block).stages > 0;
  }
  return false;
}

// Whether the stream kernel, which reads documents anew for every block of rows, is done before the wide or deep row
// tiles `other`, because it begins and ends sooner. Fitted on an H200 to calls of 8 to 12,000 documents of 4 to 3,600
// tokens with up to 46 queries of 4 to 1,700, in rows of 48 to 1,536 bytes (docs/performance/kernels.md, which says
// how well). What is compared is time, as bytes that the memory sends meanwhile: 4.6 MB are a microsecond.
bool StreamIsSooner(int64_t row_bytes, absl::Span<const ScoreGroup> groups, ScoreTile other, double document_bytes,
                    int32_t num_sms) {
  // What the others begin and end later, and what they take longer where thread blocks have to claim what they score.
  constexpr double kBeginBytes = 17e6;
  constexpr double kClaimBytes = 9e6;
  // What a document costs beside its tokens, however narrow its rows.
  constexpr double kBytesOfDocument = 3500;
  // Of several blocks: most of what they read lies in the L2 cache. Rows in shared memory are fetched for every tile.
  constexpr double kRegisterRowsPace = 0.9;
  constexpr double kSharedRowsPace = 1.2;
  const double bytes = document_bytes + kBytesOfDocument;
  const double pace = row_bytes > kStreamRegisterRowBytes ? kSharedRowsPace : kRegisterRowsPace;
  const double later = kBeginBytes + (RowTileCandidates(groups, other) > num_sms ? kClaimBytes : 0);
  return pace * EstimatedReads(groups, ScoreTile::kStream32) * bytes < EstimatedReads(groups, other) * bytes + later;
}

ScoreTile ChooseTile(ScalarType type, int32_t dim, int64_t row_bytes, absl::Span<const ScoreGroup> groups,
                     const DeviceLimits& limits, double document_bytes) {
  ScoreTile best = ScoreTile::kRows32;
  double least = std::numeric_limits<double>::infinity();
  for (ScoreTile tile : kAllScoreTiles) {
    if (!limits.Allows(tile) || !CanRun(tile, type, dim, row_bytes, limits)) continue;
    if (const double reads = EstimatedReads(groups, tile); reads < least) {
      best = tile;
      least = reads;
    }
  }
  const bool may_stream = document_bytes > 0 && (IsWide(best) || IsDeep(best)) && limits.Allows(ScoreTile::kStream32) &&
                          CanRun(ScoreTile::kStream32, type, dim, row_bytes, limits);
  return may_stream && StreamIsSooner(row_bytes, groups, best, document_bytes, limits.num_sms) ? ScoreTile::kStream32
                                                                                               : best;
}

// The most stages that fit `budget` bytes, at most kMaxStages; 0 when fewer than kMinStages do.
int32_t StagesWithin(const ScorePlan& plan, bool resident, int64_t budget) {
  for (int32_t stages = kMaxStages; stages >= kMinStages; --stages) {
    if (LayoutOf(plan.tile, resident, plan.align, plan.row_bytes, stages).total <= budget) return stages;
  }
  return 0;
}

// Picks residency, stages and thread blocks a multiprocessor. Two or more blocks a multiprocessor hide each other's
// barriers, so a plan with them is taken where it leaves a ring of three stages; a query tile too wide to stay is
// streamed.
bool FillMultiprocessor(const DeviceLimits& limits, ScorePlan& plan) {
  const TileTraits traits = TraitsOf(plan.tile);
  const auto fits = [&](bool resident, int32_t blocks_per_sm, int32_t least_stages) {
    const int64_t budget = std::min<int64_t>(limits.shared_bytes_per_sm / blocks_per_sm - limits.reserved_shared_bytes,
                                             limits.shared_bytes_per_block);
    if (blocks_per_sm * traits.threads() > limits.max_threads_per_sm) return false;
    const int32_t stages = StagesWithin(plan, resident, budget);
    if (stages < least_stages) return false;
    plan.query_resident = resident;
    plan.stages = stages;
    plan.blocks_per_sm = blocks_per_sm;
    plan.shared_bytes = LayoutOf(plan.tile, resident, plan.align, plan.row_bytes, stages).total;
    return true;
  };
  const bool streamable = plan.tile != ScoreTile::kRows32Narrow;  // whose rows always fit
  return fits(true, 2, 3) || (streamable && fits(false, 2, 3)) || fits(true, 1, 3) ||
         (streamable && fits(false, 1, 3)) || fits(true, 1, kMinStages) || (streamable && fits(false, 1, kMinStages));
}

// A Hopper kernel's ring takes all the shared memory; it runs on every multiprocessor and deals out the work itself.
void PlanHopper(absl::Span<const ScoreGroup> groups, const DeviceLimits& limits, double document_bytes,
                ScorePlan& plan) {
  plan.num_steps = static_cast<int32_t>(CeilDiv(plan.row_bytes, kStepBytes));
  plan.query_resident = true;
  plan.blocks_per_sm = 1;
  if (IsWide(plan.tile)) {
    plan.num_chunks = static_cast<int32_t>(CeilDiv(plan.row_bytes, kWideHalfBytes));
    plan.tile_tokens = kWideTokens;
    plan.threads = kWideThreads;
    plan.stages = WideStages(plan.num_chunks);
    plan.shared_bytes = WideLayoutOf(plan.num_chunks).total;
  } else if (IsDeep(plan.tile)) {
    const DeepShape shape = DeepShapeOf(plan.tile, plan.row_bytes, limits.shared_bytes_per_block);
    plan.num_chunks = DeepChunks(plan.row_bytes);
    plan.tile_tokens = kDeepTokens;
    plan.threads = kDeepThreads;
    plan.query_resident = shape.query_resident;
    plan.stages = shape.stages;
    plan.shared_bytes = DeepLayoutOf(plan.tile, shape, plan.num_chunks).total;
  } else {
    const StreamShape shape = StreamShapeOf(plan.row_bytes);
    plan.num_chunks = 1;
    plan.tile_tokens = shape.tile_tokens;
    plan.threads = shape.threads();
    plan.stages = shape.stages;
    plan.shared_bytes = shape.Layout().total;
  }
  plan.num_row_tiles = RowTiles(groups, plan.tile);
  plan.num_half_tiles = plan.tile == ScoreTile::kWide128 ? plan.num_row_tiles : CountHalfTiles(groups, plan.tile);
  plan.row_tiles_at_once = 1;
  // Documents of a stream kernel may be several blocks' (StreamShares).
  const double tile_bytes = static_cast<double>(plan.tile_tokens) * plan.row_bytes;
  const double pieces = IsStream(plan.tile) ? document_bytes / tile_bytes : 1;
  const double most_blocks = static_cast<double>(RowTileCandidates(groups, plan.tile)) * std::max(pieces, 1.0);
  plan.blocks_per_row_tile = static_cast<int32_t>(std::clamp<double>(most_blocks, 1, limits.num_sms));
}

absl::StatusOr<ScorePlan> Plan(ScalarType type, int32_t dim, bool align, absl::Span<const ScoreGroup> groups,
                               const DeviceLimits& limits, double document_bytes) {
  if (dim < kMinDim || dim > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " is outside ", kMinDim, " .. ", kMaxDim));
  }
  ScorePlan plan;
  plan.type = type;
  plan.align = align;
  plan.row_bytes = static_cast<int32_t>(DeviceRowBytes(type, dim));
  plan.tile = align ? ScoreTile::kRows32 : ChooseTile(type, dim, plan.row_bytes, groups, limits, document_bytes);
  if (IsHopper(plan.tile)) {
    PlanHopper(groups, limits, document_bytes, plan);
    return plan;
  }
  const TileTraits traits = TraitsOf(plan.tile);
  plan.tile_tokens = traits.tokens;
  plan.num_steps = static_cast<int32_t>(CeilDiv(plan.row_bytes, kStepBytes));
  plan.num_chunks = static_cast<int32_t>(CeilDiv(plan.row_bytes, traits.chunk_bytes));
  plan.chunks_of_piece = kPieceColumns * static_cast<int32_t>(SizeOf(type)) / traits.chunk_bytes;
  plan.threads = traits.threads();
  if (!FillMultiprocessor(limits, plan)) {
    return absl::FailedPreconditionError(
        absl::StrCat("no scoring kernel fits the device: ", maxsim::Name(plan.tile), " takes ",
                     LayoutOf(plan.tile, false, align, plan.row_bytes, kMinStages).total, " bytes of shared memory; ",
                     limits.ToString()));
  }
  plan.num_row_tiles = RowTiles(groups, plan.tile);
  int64_t most_candidates = 1;
  for (const ScoreGroup& group : groups) most_candidates = std::max(most_candidates, group.num_candidates);
  const int64_t resident_blocks = int64_t{limits.num_sms} * plan.blocks_per_sm;
  plan.row_tiles_at_once = static_cast<int32_t>(std::clamp<int64_t>(plan.num_row_tiles, 1, resident_blocks));
  plan.blocks_per_row_tile =
      static_cast<int32_t>(std::clamp<int64_t>(resident_blocks / plan.row_tiles_at_once, 1, most_candidates));
  return plan;
}

}  // namespace

bool SharesBlocks(const ScoreGroup& group, ScoreTile tile) {
  // Row tiles that it must save, in percent. Where it saved 6 %, short documents took up to 14 % longer; from 12 % on
  // nothing measured took more than 5 % longer (docs/performance/kernels.md).
  constexpr int64_t kLeastSaved = 10;
  return MayShareBlocks(tile) && group.packed_blocks > 0 &&
         100 * HalfTilesOf(group.packed_blocks, tile) <= (100 - kLeastSaved) * HalfTilesOf(group.num_blocks, tile);
}

int64_t BlocksOf(const ScoreGroup& group, ScoreTile tile) {
  return SharesBlocks(group, tile) ? group.packed_blocks : group.num_blocks;
}

std::string Name(ScoreTile tile) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
      return "rows32_narrow";
    case ScoreTile::kRows32:
      return "rows32";
    case ScoreTile::kRows64:
      return "rows64";
    case ScoreTile::kRows128:
      return "rows128";
    case ScoreTile::kWide128:
      return "wide128";
    case ScoreTile::kWide256:
      return "wide256";
    case ScoreTile::kStream32:
      return "stream32";
    case ScoreTile::kDeep128:
      return "deep128";
    case ScoreTile::kDeep256:
      return "deep256";
  }
  return "?";
}

std::string DeviceLimits::ToString() const {
  return absl::StrCat(num_sms, " multiprocessors, ", shared_bytes_per_block, " bytes of shared memory a block, ",
                      shared_bytes_per_sm, " a multiprocessor");
}

std::string ScorePlan::ToString() const {
  const TileTraits traits = TraitsOf(tile);
  if (IsHopper(tile)) {
    return absl::StrCat("score ", std::string(Name(type)), " ", maxsim::Name(tile), " (", traits.rows, " rows x ",
                        tile_tokens, " tokens, query ", query_resident ? "resident" : "streamed", "), ", num_steps,
                        " steps, ", stages, " stages, ", shared_bytes, " bytes of shared memory, ", threads,
                        " threads, ", num_row_tiles, " row tiles",
                        tile == ScoreTile::kWide256 && num_half_tiles > 0
                            ? absl::StrCat(" (", num_half_tiles, " of half the rows or less)")
                            : "",
                        ", grid ", grid());
  }
  return absl::StrCat(align ? "align" : "score", " ", std::string(Name(type)), " ", Name(tile), " (", traits.rows,
                      " rows x ", traits.tokens, " tokens x ", traits.chunk_bytes, " bytes, query ",
                      query_resident ? "resident" : "streamed", "), ", num_steps, " steps in ", num_chunks, " chunks, ",
                      stages, " stages, ", shared_bytes, " bytes of shared memory, ", threads, " threads, ",
                      blocks_per_sm, " blocks a multiprocessor, ", num_row_tiles, " row tiles, grid ",
                      row_tiles_at_once, " x ", blocks_per_row_tile);
}

// Each row tile streams its candidates once.
double EstimatedReads(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  double reads = 0;
  for (const ScoreGroup& group : groups) {
    double of_candidate = Pace(tile) * static_cast<double>(RowTilesOf(group, tile));
    if (EndsInHalfTile(BlocksOf(group, tile), tile)) of_candidate += Pace(ScoreTile::kWide128) - Pace(tile);
    reads += of_candidate * static_cast<double>(group.num_candidates);
  }
  return reads;
}

absl::StatusOr<ScorePlan> PlanScore(ScalarType type, int32_t dim, absl::Span<const ScoreGroup> groups,
                                    const DeviceLimits& limits, double document_bytes) {
  return Plan(type, dim, /*align=*/false, groups, limits, document_bytes);
}

absl::StatusOr<ScorePlan> PlanAlign(ScalarType type, int32_t dim, int64_t num_blocks, int64_t num_documents,
                                    const DeviceLimits& limits) {
  const ScoreGroup group{num_blocks, num_documents};
  return Plan(type, dim, /*align=*/true, absl::MakeConstSpan(&group, 1), limits, /*document_bytes=*/0);
}

int64_t SpreadTokens(const int64_t* offsets, int64_t num_documents) {
  if (num_documents == 0 || offsets[num_documents] == 0) return 0;
  constexpr double kMostMeans = 16;
  const auto num_tokens = static_cast<double>(offsets[num_documents]);
  const double mean = num_tokens / static_cast<double>(num_documents);
  double squares = 0;
  for (int64_t n = 0; n < num_documents; ++n) {
    const double tokens = std::min(static_cast<double>(offsets[n + 1] - offsets[n]), kMostMeans * mean);
    squares += tokens * tokens;
  }
  return static_cast<int64_t>(std::max(squares / num_tokens - mean, 0.0));
}

namespace {

// Where documents are spread by so many bytes, and blocks have so many of them, half of a share or more is claimed.
constexpr int64_t kUnequalBytes = 64 << 10;
constexpr int64_t kUnequalCandidates = 7;

bool IsUnequal(const ScorePlan& plan, const StreamCandidates& candidates, int64_t grid) {
  return candidates.spread_tokens * plan.row_bytes >= kUnequalBytes && candidates.total >= grid * kUnequalCandidates;
}

// Blocks of a team, where `grid` blocks make teams that have room for their candidates; else 1. The fewest teams that
// leave as few blocks as possible without one.
int32_t TeamBlocks(int64_t grid, int64_t num_row_tiles, const StreamCandidates& candidates) {
  if (candidates.regular == 0 || candidates.total == 0 || candidates.total > kMostTeamCandidates) return 1;
  // Of several row tiles a team has parts of two at most, so that two of its chunks may lack up to 31 candidates.
  const int64_t room =
      num_row_tiles == 1 ? 32 * kTeamChunks : std::min<int64_t>(32 * (kTeamChunks - 1) + 1, candidates.regular);
  int64_t best = 1, most_blocks = 0;
  for (int64_t teams = CeilDiv(candidates.total, room); teams <= grid / 2 && most_blocks < grid; ++teams) {
    const int64_t blocks = grid / teams;
    if (teams * blocks <= most_blocks) continue;
    best = blocks;
    most_blocks = teams * blocks;
  }
  return static_cast<int32_t>(best);
}

// Whether teams are done sooner than blocks that take whole documents: than the block with the most, which alone has
// but its own pace, where teams have the memory's. Fitted to calls on an H200 (docs/performance/kernels.md, which says
// how well).
bool TeamsAreSooner(const ScorePlan& plan, const StreamCandidates& candidates) {
  // Bytes a microsecond: of the memory, and of a block with its query rows in registers or in shared memory.
  constexpr double kMemoryPace = 4466e3;
  constexpr double kBlockPace = 40e3;
  constexpr double kBlockPaceOfSharedRows = 35e3;
  // What teams begin and end later, in microseconds.
  constexpr double kLater = 2;
  // How far the largest share is from the mean, in standard deviations of a share; or, of what is claimed, the longest
  // document at the end from the mean one, in those of a document.
  constexpr double kDeviations = 1.5;
  constexpr double kDeviationsOfClaims = 3;
  const auto mean = static_cast<double>(candidates.mean_tokens);
  const double deviation = std::sqrt(static_cast<double>(candidates.spread_tokens) * mean);
  const double share = static_cast<double>(candidates.total) / plan.grid();
  const double most_tokens = IsUnequal(plan, candidates, plan.grid())
                                 ? (share + 1) * mean + kDeviationsOfClaims * deviation
                                 : std::ceil(share) * mean + kDeviations * deviation * std::sqrt(std::max(share, 1.0));
  const double pace = plan.row_bytes > kStreamRegisterRowBytes ? kBlockPaceOfSharedRows : kBlockPace;
  const double all_tokens = static_cast<double>(candidates.total) * mean;
  return most_tokens * plan.row_bytes / pace > all_tokens * plan.row_bytes / kMemoryPace + kLater;
}

}  // namespace

StreamShares PlanStreamShares(const ScorePlan& plan, const StreamCandidates& candidates, const StreamTuning& tuning) {
  // Measured on an H200 (docs/performance/kernels.md). A claim is looked up while those before it are read, so that
  // they should take as long as a read does when the memory is busy. Bytes are rounded up to whole documents.
  constexpr int64_t kCoarseBytes = 130 << 10;
  constexpr int64_t kFineBytes = 64 << 10;
  // Blocks of few candidates, or few bytes, are dealt all: claims would cost them more than unequal shares do, as those
  // that have more draw the pace that the others leave.
  constexpr int64_t kFewCandidates = 16;
  constexpr int64_t kFewBytes = 2 << 20;
  // What is left open of a block's share: so many bytes, but at least a sixteenth and at most a quarter.
  constexpr int64_t kOpenBytes = 1000 << 10;
  // Of unequal documents a half, or what makes up for the spread. Small shares are claimed in the smallest pieces that
  // can be looked up meanwhile.
  constexpr int64_t kLeastClaimBytes = 24 << 10;
  constexpr int64_t kOpenSpreads = 8;
  StreamShares shares;
  const int64_t total = shares.total = candidates.total;
  const int64_t grid = std::clamp<int64_t>(total, 1, plan.grid());
  const int64_t mean_bytes = std::max<int64_t>(candidates.mean_tokens * plan.row_bytes, 1);
  const int64_t share_bytes = total * mean_bytes / grid;
  const bool small = total < grid * kFewCandidates || share_bytes < kFewBytes;
  const bool teams =
      tuning.teams >= 0 ? tuning.teams > 0 : tuning.dealt_percent < 0 && small && TeamsAreSooner(plan, candidates);
  if (teams) shares.team_blocks = TeamBlocks(plan.grid(), plan.num_row_tiles, candidates);
  if (shares.team_blocks > 1) {
    const int32_t num_teams = plan.grid() / shares.team_blocks;
    shares.blocks = num_teams * shares.team_blocks;
    shares.dealt = total;
    shares.each = total / num_teams;
    shares.extra_until = static_cast<int32_t>(total % num_teams);
    return shares;
  }
  shares.blocks = static_cast<int32_t>(grid);
  // A block whose query rows lie in shared memory empties its ring when it changes the row tile.
  const bool changes = plan.num_row_tiles > 1 && plan.row_bytes > kStreamRegisterRowBytes;
  int64_t open_bytes = small || changes ? 0 : std::clamp(kOpenBytes, share_bytes / 16, share_bytes / 4);
  const bool unequal = IsUnequal(plan, candidates, grid);
  if (unequal) {
    open_bytes =
        std::max(open_bytes, std::min(kOpenSpreads * candidates.spread_tokens * plan.row_bytes, share_bytes / 2));
  }
  int64_t open = open_bytes * grid / mean_bytes;
  if (tuning.dealt_percent >= 0) open = total - total * std::min(tuning.dealt_percent, 100) / 100;
  open = std::min(open, total);
  shares.dealt = total - open;
  shares.each = shares.dealt / grid;
  shares.extra_until = static_cast<int32_t>(shares.dealt % grid);
  const auto claim = [&](int64_t usual_bytes, int32_t tuned) {
    const int64_t bytes = small && unequal ? kLeastClaimBytes : usual_bytes;
    const int64_t of_claim = tuned > 0 ? tuned : (bytes + mean_bytes - 1) / mean_bytes;
    return static_cast<int32_t>(std::clamp<int64_t>(of_claim, 1, 32));
  };
  shares.coarse = claim(kCoarseBytes, tuning.coarse);
  shares.fine = std::min(claim(kFineBytes, tuning.fine), shares.coarse);
  // Fine claims for the last of it: two coarse ones of every block, or a quarter.
  const int64_t last = std::min(open / 4, 2 * grid * shares.coarse);
  shares.coarse_claims = (open - last) / shares.coarse;
  return shares;
}

OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always) {
  // Ordering takes some 5 us, and more for long lists. What it saves is what a block has more than others at the end
  // otherwise: what a long document has more than others, or twice that. Measured on an H200:
  // docs/performance/kernels.md.
  const int64_t worthwhile_cycles = 7000 + total / plan.num_row_tiles;
  constexpr int64_t kLongestOfShare = 25;
  // A row tile of 256 rows takes a cycle for 16 bytes of a token, and for its maxima some seven cycles at least.
  constexpr int64_t kBytesOfCycle = 16;
  constexpr int64_t kLeastCyclesOfToken = 7;
  constexpr int64_t kChunksOfShare = 16;
  const int64_t share = total * std::max<int64_t>(mean_tokens, 1) / plan.grid();
  const int64_t cycles_of_token = std::max<int64_t>(plan.row_bytes / kBytesOfCycle, kLeastCyclesOfToken);
  const int64_t cycles =
      (longest_tokens - mean_tokens) * cycles_of_token * TraitsOf(plan.tile).rows / TraitsOf(ScoreTile::kWide256).rows;
  const bool worthwhile =
      total > plan.grid() && cycles >= worthwhile_cycles && longest_tokens * kLongestOfShare > share;
  if (!worthwhile && !always) return {};
  const int64_t groups = share / kGroupTokens;
  const int64_t of_chunk = std::clamp<int64_t>(groups / kChunksOfShare, 32, 128);
  OrderPlan order;
  order.chunk_groups = static_cast<int32_t>(std::bit_floor(static_cast<uint64_t>(of_chunk)));
  order.early_groups = static_cast<int32_t>(std::min<int64_t>(groups / 8 * 7, kMostEarlyGroups));
  return order;
}

std::string StreamShares::ToString() const {
  if (team_blocks > 1) return absl::StrCat(total, " candidates, dealt to teams of ", team_blocks);
  return absl::StrCat(total, " candidates, ", dealt, " dealt, ", coarse_claims, " claims of ", coarse, ", then of ",
                      fine);
}

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
