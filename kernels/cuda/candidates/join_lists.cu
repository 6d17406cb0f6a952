// Computes the union of joined candidate lists. Every list marks its documents in a bitmap; then the marked documents
// are written to the union. A document that is in several lists has one mark, so it is in the union once. The order of
// the union depends on the order in which thread blocks run, but no score depends on the order of the union.
#include <algorithm>

#include "kernels/cuda/candidates/join_launch.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/select/block_scan.cuh"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

constexpr int kMarkThreads = 256;
constexpr int64_t kMaxMarkBlocks = 64;  // thread blocks that mark one list

__global__ void __launch_bounds__(kMarkThreads) MarkDocuments(JoinCall call) {
  const JoinedList list = call.lists[blockIdx.y];
  JoinWord* const words = call.words + list.words_begin;
  const uint32_t* const ordinals = call.ordinals + list.ordinals_begin;
  for (int64_t i = blockIdx.x * int64_t{kMarkThreads} + threadIdx.x; i < list.num_candidates;
       i += gridDim.x * int64_t{kMarkThreads}) {
    const uint32_t ordinal = ordinals[i];
    atomicOr(&words[ordinal / 32].marks, 1u << ordinal % 32);
  }
}

// Each thread block reads kSelectThreads words of the bitmap, and writes the documents that they mark to the next free
// places of the union.
__global__ void __launch_bounds__(kSelectThreads) ReadUnions(JoinCall call) {
  __shared__ ScanSpace scan;
  __shared__ uint32_t first_of_block;
  const JoinedUnion join = call.unions[blockIdx.y];
  const int64_t w = blockIdx.x * int64_t{kSelectThreads} + threadIdx.x;
  if (blockIdx.x * int64_t{kSelectThreads} >= join.num_words) return;
  JoinWord* const word = call.words + join.words_begin + w;
  uint32_t marks = w < join.num_words ? word->marks : 0;
  const uint32_t count = __popc(marks);
  const uint32_t before = SumBefore(count, scan);
  if (threadIdx.x == kSelectThreads - 1) {
    const auto total = static_cast<unsigned long long>(before + count);
    for (int t = 0; t < join.num_row_tiles; ++t) {
      int64_t* const size = &call.row_tiles[join.first_row_tile + t].num_candidates;
      const unsigned long long taken = atomicAdd(reinterpret_cast<unsigned long long*>(size), total);
      if (t == 0) first_of_block = static_cast<uint32_t>(taken);
    }
  }
  __syncthreads();
  if (marks == 0) return;
  uint32_t place = first_of_block + before;
  word->before = place;
  uint32_t* const ordinals = call.ordinals + join.ordinals_begin;
  for (; marks != 0; marks &= marks - 1) {
    ordinals[place++] = static_cast<uint32_t>(w * 32 + __ffs(static_cast<int>(marks)) - 1);
  }
}

}  // namespace

cudaError_t PrepareJoin() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, MarkDocuments);
  return error != cudaSuccess ? error : cudaFuncGetAttributes(&attributes, ReadUnions);
}

cudaError_t LaunchJoin(const JoinCall& call, cudaStream_t stream) {
  cudaError_t error = cudaMemsetAsync(call.words, 0, static_cast<size_t>(call.num_words) * sizeof(JoinWord), stream);
  if (error != cudaSuccess) return error;
  const int64_t mark_blocks = std::min((call.longest + kMarkThreads - 1) / kMarkThreads, kMaxMarkBlocks);
  const dim3 mark_grid(static_cast<unsigned>(mark_blocks), static_cast<unsigned>(call.num_lists));
  error = LaunchKernel(MarkDocuments, mark_grid, kMarkThreads, 0, stream, call);
  if (error != cudaSuccess) return error;
  const int64_t read_blocks = (call.most_words + kSelectThreads - 1) / kSelectThreads;
  const dim3 read_grid(static_cast<unsigned>(read_blocks), static_cast<unsigned>(call.num_unions));
  return LaunchKernel(ReadUnions, read_grid, kSelectThreads, 0, stream, call);
}

}  // namespace maxsim::cuda
