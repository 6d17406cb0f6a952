// Orders the candidates of each list by the length of their documents, longest first, and cuts the order into work
// units (up to 32 candidates each).
//
// One thread block orders a list. It sorts the candidates by counting them into bins of similar lengths (sixteen bins
// per octave). Then it computes a prefix sum over the ordered lengths and cuts it at the multiples of `unit_octets`:
// the candidates that begin between two cuts are a work unit. Which of two documents in the same bin comes first
// depends on the order in which threads run, but no score depends on that.
#include "kernels/cuda/candidates/order_candidates.h"

#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/select/block_scan.cuh"
#include "kernels/limits.h"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/order.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = kSelectThreads;
constexpr int kBinsPerOctave = 16;
constexpr int kOctaves = 14;  // up to 2^14 octets
constexpr int kBins = kBinsPerOctave * kOctaves;
constexpr int kMaxUnitCandidates = 32;  // each lane of a warp looks up one
constexpr int kLookUps = 4;             // candidates that a thread looks up together
constexpr int kBlockLookUps = kLookUps * kThreads;
static_assert(kBins <= kThreads);
static_assert((kMaxDocumentTokens + kOctetTokens - 1) / kOctetTokens < int64_t{1} << kOctaves);

// Returns the bin of a document of 1 .. 2^14 - 1 octets. The longer the document, the lower the bin's number.
__device__ __forceinline__ int BinOf(int32_t octets) {
  const int octave = 31 - __clz(octets);
  const int place = ((octets << 4) >> octave) & (kBinsPerOctave - 1);
  return kBins - 1 - (octave * kBinsPerOctave + place);
}

__global__ void __launch_bounds__(kThreads, 1) OrderCandidates(const __grid_constant__ OrderCall call) {
  __shared__ uint16_t octets_at[kMaxOrderedCandidates];  // lengths of the ordered documents, in octets
  __shared__ uint32_t bins[kBins];                       // number of candidates; later the next one's place
  __shared__ ScanSpace scan;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kBins) bins[thread] = 0;
  WaitForEarlierGrids();
  const RowTile& tile = call.row_tiles[blockIdx.x];
  const int32_t begin = tile.order_begin;
  if (blockIdx.x > 0 && call.row_tiles[blockIdx.x - 1].order_begin == begin)
    return;  // a list's first row tile orders it
  const int count = static_cast<int>(tile.num_candidates);
  const uint32_t* const ordinals = tile.ordinals_begin < 0 ? nullptr : call.ordinals + tile.ordinals_begin;
  __syncthreads();

  // The candidates that this thread looked up last. If they are all of its candidates, it need not look them up again.
  PlacedCandidate candidates[kLookUps];
  const auto look_up = [&](int first) {
#pragma unroll
    for (int i = 0; i < kLookUps; ++i) {
      const auto position = static_cast<uint32_t>(min(first + i * kThreads, count - 1));
      const uint32_t ordinal = ordinals == nullptr ? position : ordinals[position];
      const auto begin = static_cast<int32_t>(call.offsets[ordinal]);
      const int32_t tokens = static_cast<int32_t>(call.offsets[ordinal + 1]) - begin;
      candidates[i] = {position, begin, tokens, call.scales == nullptr ? 1.0f : call.scales[ordinal]};
    }
  };
  const auto for_each = [&](bool known, auto visit) {
#pragma unroll 1
    for (int first = thread; first < count; first += kBlockLookUps) {
      if (!known) look_up(first);
#pragma unroll
      for (int i = 0; i < kLookUps; ++i) {
        if (first + i * kThreads < count) visit(candidates[i]);
      }
    }
  };

  for_each(/*known=*/false,
           [&](const PlacedCandidate& candidate) { atomicAdd(&bins[BinOf(OctetsIn(candidate.tokens))], 1u); });
  __syncthreads();
  const uint32_t first_of_bin = SumBefore(thread < kBins ? bins[thread] : 0, scan);
  if (thread < kBins) bins[thread] = first_of_bin;
  __syncthreads();
  for_each(/*known=*/count <= kBlockLookUps, [&](const PlacedCandidate& candidate) {
    const int32_t octets = OctetsIn(candidate.tokens);
    const uint32_t place = atomicAdd(&bins[BinOf(octets)], 1u);
    octets_at[place] = static_cast<uint16_t>(octets);
    call.order.placed[begin + place] = candidate;
  });
  __syncthreads();

  // A document's weight is its length, but at least `least`, so that no work unit has more than kMaxUnitCandidates
  // candidates, and at most `unit_octets`, so that no work unit is empty.
  const uint32_t unit_octets = static_cast<uint32_t>(call.unit_octets), least = unit_octets / kMaxUnitCandidates;
  const auto weight_of = [&](int place) { return min(max(uint32_t{octets_at[place]}, least), unit_octets); };
  const int per_thread = (count + kThreads - 1) / kThreads;
  const int first = min(thread * per_thread, count), end = min(first + per_thread, count);
  uint32_t weight = 0;
  for (int i = first; i < end; ++i) weight += weight_of(i);
  uint32_t before = SumBefore(weight, scan);
  uint32_t* const units = call.order.units + begin;
  for (int i = first; i < end; ++i) {
    const uint32_t unit = before / unit_octets;
    if (i == 0 || (before - weight_of(i - 1)) / unit_octets != unit) units[1 + unit] = static_cast<uint32_t>(i);
    before += weight_of(i);
    if (i + 1 < count) continue;
    units[0] = unit + 1;
    units[2 + unit] = static_cast<uint32_t>(count);
  }
}

}  // namespace

cudaError_t PrepareOrderCandidates() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, OrderCandidates);
}

cudaError_t LaunchOrderCandidates(const OrderCall& call, cudaStream_t stream) {
  return LaunchOverlapping(OrderCandidates, static_cast<unsigned>(call.num_row_tiles), kThreads, 0, stream, call);
}

}  // namespace maxsim::cuda
