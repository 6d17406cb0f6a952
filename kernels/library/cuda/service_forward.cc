#include "kernels/library/cuda/service_forward.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/score/hopper_common/describe_maps.h"
#include "kernels/cuda/score/hopper_deep/kernel.h"
#include "kernels/cuda/score/hopper_wide/kernel.h"
#include "kernels/library/cuda/hopper_forward.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/claims.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_ring.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::library {
namespace {

namespace sm90 = cuda::sm90;

// Maximum number of row tiles. A thread block that finds no more work looks at each of them, which takes it about 20 us
// for this many.
constexpr int64_t kMaxServiceRowTiles = 2048;

// Returns the limits of the current device if the service's kernels for Hopper can run on it. Otherwise `hopper` is
// false.
DeviceLimits LimitsOfDevice() {
  DeviceLimits limits;
  int device = 0;
  int major = 0;
  int minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&limits.num_sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&limits.shared_bytes_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
          cudaSuccess) {
    cudaGetLastError();
    return limits;
  }
  limits.hopper = major == 9 && minor == 0;
  return limits;
}

// Returns whether the kernels can score the call's documents.
bool TakesDocuments(const DeviceProblem& problem, int64_t row_bytes) {
  const maxsim_tokens& documents = problem.documents;
  const auto type = static_cast<ScalarType>(documents.type);
  if (type == ScalarType::kF32 || documents.mask != nullptr) return false;
  if (HasTokenScales(documents)) return false;
  if (row_bytes % 16 != 0 || row_bytes > kDeepMaxRowBytes) return false;
  // Ordinals have 32 bits, and document d may have the ordinal 2 d.
  return documents.num_rows >= 1 && documents.num_rows <= kWideMaxTokens &&
         documents.num_sequences <= std::numeric_limits<int32_t>::max();
}

// Chooses the kernel and the number of query tiles of its row tiles.
ScoreTile TileOf(int64_t row_bytes, int64_t tiles_per_list) {
  if (row_bytes <= kWideMaxRowBytes) {
    return tiles_per_list <= kHalfTileQueryTiles ? ScoreTile::kWide128 : ScoreTile::kWide256;
  }
  return tiles_per_list <= TraitsOf(ScoreTile::kDeep128).query_tiles() ? ScoreTile::kDeep128 : ScoreTile::kDeep256;
}

bool FitsDevice(const ScorePlan& plan, const DeviceLimits& limits) {
  return limits.hopper && plan.stages > 0 && plan.shared_bytes <= limits.shared_bytes_per_block;
}

// Returns what the kernels can know about lists and documents without reading memory.
cuda::ListPattern PatternOf(const ServiceForward& forward) {
  cuda::ListPattern pattern{};
  const DeviceProblem& problem = forward.problem;
  const ServiceShape& shape = forward.shape;
  if (!shape.has_places) pattern.document_tokens = problem.documents.max_tokens;
  if (shape.num_lists > 1 && shape.row_tiles_per_list > 1) return pattern;
  pattern.regular = static_cast<uint32_t>(problem.list_length);
  pattern.ordinals_begin = shape.has_ordinals ? 0 : -1;
  pattern.ordinals_stride = shape.num_lists > 1 ? problem.list_length : 0;
  return pattern;
}

// Fills in the parameters that the wide and the deep kernels have in common.
void FillWorkQueue(const ScorePlan& plan, const ServiceForward& forward, cuda::WorkQueueParams& params) {
  const DeviceProblem& problem = forward.problem;
  params.tokens = static_cast<const uint8_t*>(problem.documents.rows);
  params.offsets = forward.places;
  params.scales = forward.shape.has_places ? forward.place_scales : problem.documents.scales;
  params.query_rows = forward.query_rows;
  params.row_weights = forward.row_weights;
  params.row_tiles = forward.row_tiles;
  params.ordinals = forward.ordinals;
  params.scores = forward.scores;
  params.partials = forward.partials;
  params.pass_count = problem.list_length;
  params.num_row_tiles = static_cast<int32_t>(plan.num_row_tiles);
  params.row_bytes = plan.row_bytes;
  params.num_steps = plan.num_steps;
  params.pattern = PatternOf(forward);
  params.claims = forward.claims;
  params.claim_candidates =
      ClaimCandidates(MeanTokens(problem.documents), problem.list_length * plan.num_row_tiles, plan.grid());
  params.start_tiles = cuda::StartTiles::Of(plan.grid(), params.num_row_tiles,
                                            static_cast<int32_t>(plan.num_half_tiles), params.pattern.regular);
}

cudaError_t LaunchWide(const ScorePlan& plan, const ServiceForward& forward, const sm90::DocumentMaps& maps,
                       cudaStream_t stream) {
  cuda::WideParams params{};
  sm90::FillFromPlan(plan, params);
  FillWorkQueue(plan, forward, params);
  const cudaError_t error = sm90::PrepareWideKernel(plan);
  return error == cudaSuccess ? sm90::LaunchWideKernel(plan, maps, params, stream) : error;
}

cudaError_t LaunchDeep(const ScorePlan& plan, const ServiceForward& forward, const sm90::DocumentMaps& maps,
                       cudaStream_t stream) {
  cuda::DeepParams params{};
  sm90::FillFromPlan(plan, params);
  FillWorkQueue(plan, forward, params);
  sm90::QueryMap queries;
  cudaError_t error =
      sm90::DescribeQueries(plan.type, forward.query_rows, int64_t{forward.shape.num_query_tiles()} * kQueryTileTokens,
                            plan.row_bytes, plan.tile, queries);
  if (error == cudaSuccess) error = sm90::PrepareDeepKernel(plan);
  return error == cudaSuccess ? sm90::LaunchDeepKernel(plan, maps, queries, params, stream) : error;
}

}  // namespace

bool PlanServiceForward(const DeviceProblem& problem, ScorePlan* plan, ServiceShape* shape) {
  const maxsim_tokens& queries = problem.queries;
  const maxsim_tokens& documents = problem.documents;
  const auto type = static_cast<ScalarType>(documents.type);
  const int64_t row_bytes = documents.dim * static_cast<int64_t>(SizeOf(type));
  if (problem.num_pairs == 0 || problem.list_length >= cuda::kMaxPassCandidates ||
      !TakesDocuments(problem, row_bytes)) {
    return false;
  }
  const bool shared_list = problem.pairing == MAXSIM_ALL;
  const int64_t query_tiles = std::max<int64_t>(NumQueryTiles(queries.max_tokens), 1);
  const int64_t num_lists = shared_list ? 1 : queries.num_sequences;
  const int64_t tiles_per_list = query_tiles * (shared_list ? queries.num_sequences : 1);
  // The library's own kernel is as fast for these calls, and it needs no kernel that prepares its input.
  if (row_bytes <= HopperMaxRowBytes(type) && tiles_per_list <= kHalfTileQueryTiles) return false;
  plan->type = type;
  plan->tile = TileOf(row_bytes, tiles_per_list);
  plan->row_bytes = static_cast<int32_t>(row_bytes);
  shape->tiles_per_row_tile = TraitsOf(plan->tile).query_tiles();
  plan->num_row_tiles = num_lists * CeilDiv(tiles_per_list, shape->tiles_per_row_tile);
  if (plan->num_row_tiles > kMaxServiceRowTiles) return false;
  shape->query_tiles = static_cast<int32_t>(query_tiles);
  shape->num_lists = static_cast<int32_t>(num_lists);
  shape->tiles_per_list = static_cast<int32_t>(tiles_per_list);
  shape->row_tiles_per_list = static_cast<int32_t>(plan->num_row_tiles / num_lists);
  shape->has_places = documents.layout != MAXSIM_PADDED || documents.lengths != nullptr;
  shape->has_ordinals = !shared_list || shape->has_places;
  const DeviceLimits limits = LimitsOfDevice();
  PlanHopperRing(limits, *plan);
  if (!FitsDevice(*plan, limits)) return false;
  // Only the last row tile of a list may be a half one.
  const int32_t last = shape->tiles_per_list - (shape->row_tiles_per_list - 1) * shape->tiles_per_row_tile;
  plan->num_half_tiles = IsWide(plan->tile) && last <= kHalfTileQueryTiles ? shape->num_lists : 0;
  plan->row_tiles_at_once = 1;
  plan->blocks_per_row_tile =
      static_cast<int32_t>(std::min<int64_t>(problem.list_length * plan->num_row_tiles, limits.num_sms));
  return true;
}

void LayOutServiceForward(Workspace* workspace, ServiceForward* forward) {
  const DeviceProblem& problem = forward->problem;
  const ServiceShape& shape = forward->shape;
  const int64_t num_rows = int64_t{shape.num_query_tiles()} * kQueryTileTokens;
  forward->query_rows = workspace->Take<uint8_t>(num_rows * forward->row_bytes);
  forward->row_weights = workspace->Take<float>(num_rows);
  forward->row_tiles = workspace->Take<cuda::RowTile>(shape.num_row_tiles());
  forward->claims = workspace->Take<uint32_t>(shape.num_row_tiles() + 2);
  if (shape.has_places) {
    forward->places = workspace->Take<int64_t>(2 * problem.documents.num_sequences);
    if (problem.documents.scales != nullptr) {
      forward->place_scales = workspace->Take<float>(2 * problem.documents.num_sequences);
    }
  }
  if (shape.has_ordinals) forward->ordinals = workspace->Take<uint32_t>(shape.num_lists * problem.list_length);
  if (shape.query_tiles > 1) forward->partials = workspace->Take<float>(problem.num_pairs * shape.query_tiles);
}

cudaError_t LaunchServiceForward(const ScorePlan& plan, const ServiceForward& forward, cudaStream_t stream) {
  const maxsim_tokens& documents = forward.problem.documents;
  sm90::DocumentMaps maps;
  cudaError_t error = sm90::DescribeDocuments(plan.type, documents.rows, documents.num_rows, plan.row_bytes, maps);
  if (error == cudaSuccess) error = LaunchPrepareInput(forward, stream);
  if (error == cudaSuccess) {
    error = IsWide(plan.tile) ? LaunchWide(plan, forward, maps, stream) : LaunchDeep(plan, forward, maps, stream);
  }
  if (error == cudaSuccess && forward.shape.needs_finish()) error = LaunchFinishScores(forward, stream);
  return error;
}

}  // namespace maxsim::library
