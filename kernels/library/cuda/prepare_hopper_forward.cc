#include <algorithm>
#include <limits>

#include "kernels/cuda/score/hopper_common/describe_maps.h"
#include "kernels/library/cuda/hopper_forward.h"
#include "kernels/plan/hopper_wide_shape.h"

namespace maxsim::library {
namespace {

constexpr int64_t CeilingOf(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// The time in which a thread block reads its query rows and fills its ring, as the number of tiles that it could
// multiply in this time.
constexpr int64_t kTilesOfStart = 6;
// A multiprocessor can run one or two thread blocks at a time (places), one after another in each place. Lists are
// split into at most this many thread blocks per place.
constexpr int64_t kMaxRounds = 24;

// Returns the number of multiprocessors of the current device, or 0 if it is not a Hopper GPU.
int64_t HopperProcessors() {
  int device = 0;
  int major = 0;
  int minor = 0;
  int processors = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return major == 9 && minor == 0 ? processors : 0;
}

// Returns how many documents of a list each thread block gets, so that all thread blocks finish at about the same time.
// The device can run `places` thread blocks at a time. `units` is the number of thread blocks if lists were not split.
int64_t DocumentsABlock(int64_t list_length, int64_t document_tiles, int64_t units, int64_t places) {
  const auto documents_of = [&](int64_t rounds) {
    return CeilingOf(list_length, std::clamp<int64_t>(rounds * places / units, 1, list_length));
  };
  // Returns how long one place is busy, in tiles: the tiles of its thread blocks, and kTilesOfStart for each thread
  // block.
  const auto tiles_of = [&](int64_t documents) {
    const int64_t num_blocks = units * CeilingOf(list_length, documents);
    return CeilingOf(num_blocks, places) * (documents * document_tiles + kTilesOfStart);
  };
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t rounds = 1; rounds <= kMaxRounds; ++rounds) least = std::min(least, tiles_of(documents_of(rounds)));
  // Chooses more and smaller thread blocks if they cost at most 3 % more, because they even out documents of different
  // lengths.
  int64_t rounds = kMaxRounds;
  while (rounds > 1 && tiles_of(documents_of(rounds)) > least + least / 32) --rounds;
  return documents_of(rounds);
}

HopperForwardPlan PlanHopperForward(const DeviceProblem& problem, int64_t query_tiles, int64_t row_bytes,
                                    int64_t processors) {
  HopperForwardPlan plan;
  const bool shared_list = problem.pairing == MAXSIM_ALL;
  plan.num_lists = shared_list ? 1 : problem.queries.num_sequences;
  plan.tiles_a_list = shared_list ? problem.queries.num_sequences * query_tiles : query_tiles;
  // A thread block with one warpgroup shares a multiprocessor with a second thread block. For rows of two halves and
  // tokens with scales, its warps would need more registers than this leaves them. So the plan has two warpgroups then.
  const bool wide_scaled = HasTokenScales(problem.documents) && row_bytes > kHopperHalfBytes;
  plan.warpgroups = plan.tiles_a_list > kHopperWarps || wide_scaled ? 2 : 1;
  plan.row_tiles = CeilingOf(plan.tiles_a_list, plan.warpgroups * kHopperWarps);
  const int64_t units = plan.num_lists * plan.row_tiles;
  const int64_t document_tiles = std::max<int64_t>(CeilingOf(MeanTokens(problem.documents), kHopperTokens), 1);
  plan.documents_per_block =
      DocumentsABlock(problem.list_length, document_tiles, units, processors * (plan.warpgroups == 1 ? 2 : 1));
  plan.splits = CeilingOf(problem.list_length, plan.documents_per_block);
  plan.num_blocks = units * plan.splits;
  return plan;
}

}  // namespace

bool PrepareHopperForward(const ForwardParams& forward, ScalarType type, HopperForwardParams* params) {
  const DeviceProblem& problem = forward.problem;
  if (type == ScalarType::kF32 || !forward.aligned || forward.plan.row_bytes > HopperMaxRowBytes(type)) return false;
  // The copy engine's coordinates have 32 bits.
  if (problem.documents.num_rows < 1 || problem.documents.num_rows > INT32_MAX - kHopperTokens) return false;
  const int64_t processors = HopperProcessors();
  if (processors == 0) return false;
  params->plan = PlanHopperForward(problem, forward.plan.query_tiles, forward.plan.row_bytes, processors);
  if (params->plan.num_blocks > INT32_MAX) return false;
  params->forward = forward;
  static_assert(kHopperHalfBytes == kWideHalfBytes);
  return cuda::sm90::DescribeRows(type, problem.documents.rows, problem.documents.num_rows, forward.plan.row_bytes,
                                  kHopperBoxTokens, params->documents) == cudaSuccess;
}

}  // namespace maxsim::library
