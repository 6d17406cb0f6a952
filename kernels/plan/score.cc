#include "kernels/plan/plan_score.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_ring.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/portable_shape.h"
#include "kernels/plan/residual_shape.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {
namespace {

bool CanRun(ScoreTile tile, ScalarType type, int32_t dim, int64_t row_bytes, const DeviceLimits& limits) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
      return type != ScalarType::kF32 && row_bytes <= TraitsOf(tile).chunk_bytes;
    case ScoreTile::kRows32:
      return true;
    case ScoreTile::kRows64:
      return type != ScalarType::kF32;
    case ScoreTile::kRows128:
      // Rows of several chains (kChainColumns columns each) need a second set of sums, for which the registers of a
      // thread have no room.
      return type == ScalarType::kI8 || (type != ScalarType::kF32 && dim <= kChainColumns);
    case ScoreTile::kWide128:
    case ScoreTile::kWide256:
      return type != ScalarType::kF32 && row_bytes <= kWideMaxRowBytes && limits.hopper && limits.tensor_maps &&
             WideSharedBytes(1) <= limits.shared_bytes_per_block && WideSharedBytes(2) <= limits.shared_bytes_per_block;
    case ScoreTile::kStream32:
      return type != ScalarType::kF32 && limits.hopper && StreamShapeOf(row_bytes).stages > 0 &&
             StreamShapeOf(row_bytes).Layout().total <= limits.shared_bytes_per_block;
    case ScoreTile::kDeep128:
    case ScoreTile::kDeep256:
      // The deep kernels keep the sums of a row in one chain; I8 sums are exact whatever the chains.
      return type != ScalarType::kF32 && row_bytes > kWideMaxRowBytes && row_bytes <= kDeepMaxRowBytes &&
             limits.hopper && limits.tensor_maps &&
             DeepShapeOf(tile, row_bytes, limits.shared_bytes_per_block).stages > 0;
    case ScoreTile::kResidual32:
      return false;  // PlanResidual plans residual codes, so this tile is never chosen here
  }
  return false;
}

ScoreTile ChooseTile(ScalarType type, int32_t dim, int64_t row_bytes, absl::Span<const QueryGroupShape> groups,
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

// Returns the number of stages that fit `budget` bytes, at most kMaxStages. Returns 0 if fewer than kMinStages fit.
int32_t StagesWithin(const ScorePlan& plan, bool resident, int64_t budget) {
  for (int32_t stages = kMaxStages; stages >= kMinStages; --stages) {
    if (LayoutOf(plan.tile, resident, plan.align, plan.row_bytes, stages).total <= budget) return stages;
  }
  return 0;
}

// Chooses whether the row tile stays in shared memory, the stages, and the thread blocks per multiprocessor. Returns
// false if no choice fits. Two or more thread blocks on a multiprocessor hide each other's barriers, so the function
// prefers several if each still has a ring of three stages. A row tile that is too wide to stay in shared memory is
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
  const bool streamable = plan.tile != ScoreTile::kRows32Narrow;  // its rows always fit
  return fits(true, 2, 3) || (streamable && fits(false, 2, 3)) || fits(true, 1, 3) ||
         (streamable && fits(false, 1, 3)) || fits(true, 1, kMinStages) || (streamable && fits(false, 1, kMinStages));
}

// Fills in the plan of a Hopper kernel. The kernel runs on every multiprocessor, and divides the work among thread
// blocks itself.
void PlanHopper(absl::Span<const QueryGroupShape> groups, const DeviceLimits& limits, double document_bytes,
                ScorePlan& plan) {
  PlanHopperRing(limits, plan);
  plan.num_row_tiles = RowTiles(groups, plan.tile);
  plan.num_half_tiles = plan.tile == ScoreTile::kWide128 ? plan.num_row_tiles : CountHalfTiles(groups, plan.tile);
  plan.row_tiles_at_once = 1;
  // A stream kernel may cut a document for several thread blocks (StreamShares).
  const double tile_bytes = static_cast<double>(plan.tile_tokens) * plan.row_bytes;
  const double parts = IsStream(plan.tile) ? document_bytes / tile_bytes : 1;
  const double most_blocks = static_cast<double>(RowTileCandidates(groups, plan.tile)) * std::max(parts, 1.0);
  plan.blocks_per_row_tile = static_cast<int32_t>(std::clamp<double>(most_blocks, 1, limits.num_sms));
}

// Fills in the plan of a kernel over residual codes. Each thread block has a share of the candidates of one row tile,
// large enough that each of its warps has at least one candidate.
void PlanResidual(int32_t dim, absl::Span<const QueryGroupShape> groups, ScorePlan& plan) {
  plan.tile = ScoreTile::kResidual32;
  plan.query_resident = CodedQueryStays(dim, ScalarType::kF16);
  plan.num_steps = static_cast<int32_t>(CeilDiv(dim, kCodedStepColumns));
  plan.num_chunks = 1;
  plan.tile_tokens = TraitsOf(plan.tile).tokens;
  plan.threads = 32 * kCodedWarps;
  plan.blocks_per_sm = TraitsOf(plan.tile).min_blocks;
  plan.shared_bytes = CodedSharedOf(/*table_bytes=*/0, plan.query_resident, dim, ScalarType::kF16).total;
  plan.num_row_tiles = RowTiles(groups, plan.tile);
  int64_t most_candidates = 1;
  for (const QueryGroupShape& group : groups) most_candidates = std::max(most_candidates, group.num_candidates);
  plan.row_tiles_at_once = static_cast<int32_t>(std::max<int64_t>(plan.num_row_tiles, 1));
  plan.blocks_per_row_tile = static_cast<int32_t>(std::clamp<int64_t>(
      CeilDiv(kWantedCodedBlocks, plan.row_tiles_at_once), 1, CeilDiv(most_candidates, kCodedWarps)));
}

absl::StatusOr<ScorePlan> Plan(ScalarType type, int32_t dim, bool align, absl::Span<const QueryGroupShape> groups,
                               const DeviceLimits& limits, double document_bytes) {
  if (dim < kMinDim || dim > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " is outside ", kMinDim, " .. ", kMaxDim));
  }
  ScorePlan plan;
  plan.type = type;
  plan.align = align;
  plan.row_bytes = static_cast<int32_t>(DeviceRowBytes(type, dim));
  if (IsResidual(type)) {
    PlanResidual(dim, groups, plan);
    return plan;
  }
  plan.tile = align ? ScoreTile::kRows32 : ChooseTile(type, dim, plan.row_bytes, groups, limits, document_bytes);
  if (IsHopper(plan.tile)) {
    PlanHopper(groups, limits, document_bytes, plan);
    return plan;
  }
  const TileTraits traits = TraitsOf(plan.tile);
  plan.tile_tokens = traits.tokens;
  plan.num_steps = static_cast<int32_t>(CeilDiv(plan.row_bytes, kStepBytes));
  plan.num_chunks = static_cast<int32_t>(CeilDiv(plan.row_bytes, traits.chunk_bytes));
  plan.chunks_of_chain = kChainColumns * static_cast<int32_t>(SizeOf(type)) / traits.chunk_bytes;
  plan.threads = traits.threads();
  if (!FillMultiprocessor(limits, plan)) {
    return absl::FailedPreconditionError(
        absl::StrCat("no scoring kernel fits the device: ", maxsim::Name(plan.tile), " takes ",
                     LayoutOf(plan.tile, false, align, plan.row_bytes, kMinStages).total, " bytes of shared memory; ",
                     limits.ToString()));
  }
  plan.num_row_tiles = RowTiles(groups, plan.tile);
  int64_t most_candidates = 1;
  for (const QueryGroupShape& group : groups) most_candidates = std::max(most_candidates, group.num_candidates);
  const int64_t resident_blocks = int64_t{limits.num_sms} * plan.blocks_per_sm;
  plan.row_tiles_at_once = static_cast<int32_t>(std::clamp<int64_t>(plan.num_row_tiles, 1, resident_blocks));
  plan.blocks_per_row_tile =
      static_cast<int32_t>(std::clamp<int64_t>(resident_blocks / plan.row_tiles_at_once, 1, most_candidates));
  return plan;
}

}  // namespace

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

absl::StatusOr<ScorePlan> PlanScore(ScalarType type, int32_t dim, absl::Span<const QueryGroupShape> groups,
                                    const DeviceLimits& limits, double document_bytes) {
  return Plan(type, dim, /*align=*/false, groups, limits, document_bytes);
}

absl::StatusOr<ScorePlan> PlanAlign(ScalarType type, int32_t dim, int64_t num_query_tiles, int64_t num_documents,
                                    const DeviceLimits& limits) {
  const QueryGroupShape group{num_query_tiles, num_documents};
  return Plan(type, dim, /*align=*/true, absl::MakeConstSpan(&group, 1), limits, /*document_bytes=*/0);
}

}  // namespace maxsim
