// Radix selection of the k largest keys. Each pass counts one digit of the keys that agree with the digits found so
// far; the next pass reads from the counts which digit the k-th key has. Scores that differ settle in the first three
// digits and the later passes return at once; only ties at the k-th score go on into the positions.
#include <algorithm>

#include "kernels/cuda/topk/key.cuh"
#include "kernels/cuda/topk/topk_launch.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;

// Copies of a block's histogram, one for each lane number modulo 4: scores crowd in a few bins of the first digit, and
// a warp's atomics on one address go one by one.
constexpr int kCopies = 4;

struct Digit {
  int shift;
  int bits;
};
__host__ __device__ constexpr Digit DigitOf(int pass) {
  constexpr Digit kDigits[kSelectPasses] = {{53, 11}, {42, 11}, {32, 10}, {21, 11}, {10, 11}, {0, 10}};
  return kDigits[pass];
}

// The digits of `key` that passes before `pass` have settled.
__device__ __forceinline__ uint64_t PrefixOf(uint64_t key, int pass) {
  return pass == 0 ? 0 : key >> DigitOf(pass - 1).shift;
}

// State before `pass`, from the state before the last pass and its counts. Called by all threads of a block; every
// block finds the same.
__device__ SelectState Advance(const SelectState& before, const uint32_t* histogram, int last_pass) {
  __shared__ SelectState shared_state;
  __shared__ uint32_t warp_sums[kWarps];
  if (before.done) return before;
  // Each thread takes two bins, the largest digits first; a scan over the block finds where the count reaches `need`.
  const int thread = threadIdx.x;
  const int lane = thread % 32;
  const int high = kSelectBins - 1 - 2 * thread;
  const uint32_t count_high = histogram[high];
  const uint32_t count_low = histogram[high - 1];
  uint32_t inclusive = count_high + count_low;
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, inclusive, distance);
    if (lane >= distance) inclusive += other;
  }
  if (lane == 31) warp_sums[thread / 32] = inclusive;
  __syncthreads();
  uint32_t exclusive = inclusive - count_high - count_low;
  for (int w = 0; w < thread / 32; ++w) exclusive += warp_sums[w];
  if (exclusive < before.need && before.need <= exclusive + count_high + count_low) {
    const bool in_high = before.need <= exclusive + count_high;
    const uint32_t count = in_high ? count_high : count_low;
    const uint64_t digit = static_cast<uint64_t>(in_high ? high : high - 1);
    SelectState state;
    state.prefix = (before.prefix << DigitOf(last_pass).bits) | digit;
    state.need = before.need - exclusive - (in_high ? 0 : count_high);
    state.done = count == state.need;
    shared_state = state;
  }
  __syncthreads();
  return shared_state;
}

__device__ SelectState StateBefore(const SelectQuery& query, SelectWorkspace& workspace, int pass) {
  if (pass == 0) return {0, static_cast<uint32_t>(query.k), 0};
  const SelectState before = pass == 1 ? SelectState{0, static_cast<uint32_t>(query.k), 0} : workspace.state[pass - 1];
  const SelectState state = Advance(before, workspace.histogram[pass - 1], pass - 1);
  if (blockIdx.x == 0 && threadIdx.x == 0) workspace.state[pass] = state;
  return state;
}

__global__ void __launch_bounds__(kThreads)
    CountDigits(const SelectQuery* queries, const float* scores, SelectWorkspace* workspaces, int pass) {
  __shared__ uint32_t counts[kSelectBins * kCopies];
  const SelectQuery query = queries[blockIdx.y];
  if (query.radix_idx < 0) return;
  SelectWorkspace& workspace = workspaces[query.radix_idx];
  const SelectState state = StateBefore(query, workspace, pass);
  if (state.done) return;
  for (int i = threadIdx.x; i < kSelectBins * kCopies; i += kThreads) counts[i] = 0;
  __syncthreads();
  const Digit digit = DigitOf(pass);
  const float* own = scores + query.scores_offset;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < query.num_candidates;
       i += gridDim.x * int64_t{kThreads}) {
    const uint64_t key = MakeKey(own[i], static_cast<uint32_t>(i));
    if (PrefixOf(key, pass) != state.prefix) continue;
    const uint32_t bin = static_cast<uint32_t>(key >> digit.shift) & ((1u << digit.bits) - 1);
    atomicAdd(&counts[bin * kCopies + threadIdx.x % kCopies], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kSelectBins; bin += kThreads) {
    uint32_t count = 0;
    for (int copy = 0; copy < kCopies; ++copy) count += counts[bin * kCopies + copy];
    if (count != 0) atomicAdd(&workspace.histogram[pass][bin], count);
  }
}

__global__ void __launch_bounds__(kThreads)
    CollectKeys(const SelectQuery* queries, const float* scores, SelectWorkspace* workspaces, uint64_t* keys) {
  const SelectQuery query = queries[blockIdx.y];
  if (query.radix_idx < 0) return;
  SelectWorkspace& workspace = workspaces[query.radix_idx];
  // The digits of the k-th key: all 64 bits, or as many as were needed to settle it. A pass that found nothing to do
  // left its state as it was, so the number of digits is where the state first said done.
  const SelectState state = StateBefore(query, workspace, kSelectPasses);
  int passes = kSelectPasses;
  while (passes > 1 && workspace.state[passes - 1].done) --passes;
  const uint64_t threshold = state.prefix << DigitOf(passes - 1).shift;
  const float* own = scores + query.scores_offset;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < query.num_candidates;
       i += gridDim.x * int64_t{kThreads}) {
    const uint64_t key = MakeKey(own[i], static_cast<uint32_t>(i));
    if (key < threshold) continue;
    const uint32_t slot = atomicAdd(&workspace.num_keys, 1u);
    if (slot < static_cast<uint32_t>(query.k)) keys[query.keys_offset + slot] = key;
  }
}

}  // namespace

cudaError_t PrepareRadixSelect() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, CountDigits);
  return error == cudaSuccess ? cudaFuncGetAttributes(&attributes, CollectKeys) : error;
}

cudaError_t LaunchRadixSelect(const SelectPlan& plan, const SelectQuery* queries, int num_queries, const float* scores,
                              SelectWorkspace* workspaces, uint64_t* keys, cudaStream_t stream) {
  const dim3 grid(plan.select_blocks, num_queries);
  for (int pass = 0; pass < kSelectPasses; ++pass) {
    CountDigits<<<grid, kThreads, 0, stream>>>(queries, scores, workspaces, pass);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  CollectKeys<<<grid, kThreads, 0, stream>>>(queries, scores, workspaces, keys);
  return cudaGetLastError();
}

}  // namespace maxsim::cuda
