// The kernel of large selections (selection.cuh), which has a row of thread blocks for each query, and the launches of
// all selections.
#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/select/completion.cuh"
#include "kernels/cuda/select/selection.cuh"
#include "kernels/cuda/select/selection_bound.cuh"
#include "kernels/cuda/select/selection_gather.cuh"
#include "kernels/cuda/select/selection_rank.cuh"
#include "kernels/cuda/select/selection_scan.cuh"
#include "kernels/cuda/select/selection_state.cuh"
#include "kernels/cuda/select/selection_sync.cuh"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

__global__ void __launch_bounds__(kSelectThreads, 1)
    SelectKernel(const __grid_constant__ SelectCall call, CallTimes* times) {
  extern __shared__ __align__(16) uint8_t raw[];
  WaitForEarlierGrids();
  NoteTimeOnce(times, &CallTimes::scores_end);
  selection::Shared& shared = *reinterpret_cast<selection::Shared*>(raw);
  if (threadIdx.x == 0) {
    shared.query = call.num_large + call.num_small == 1 ? call.only : call.queries[blockIdx.y];
    shared.lists = call.keys + shared.query.keys_offset;
    shared.results = call.results + shared.query.results_offset;
    shared.times = times;
  }
  __syncthreads();
  if (blockIdx.x < shared.query.splits) selection::Selection(call.scores, call.workspaces[blockIdx.y], shared).Run();
}

}  // namespace

cudaError_t PrepareLargeSelect(bool& overlap) {
  const cudaError_t error =
      cudaFuncSetAttribute(SelectKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(selection::Shared));
  return error == cudaSuccess ? FindGridOrder(SelectKernel, overlap) : error;
}

cudaError_t LaunchLargeSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream) {
  const dim3 grid(call.most_splits, call.num_large);
  return LaunchOverlappingIf(overlap, SelectKernel, grid, kSelectThreads, sizeof(selection::Shared), stream, call,
                             times);
}

cudaError_t PrepareSelect(bool& overlap) {
  const cudaError_t error = PrepareLargeSelect(overlap);
  return error == cudaSuccess ? PrepareRank(overlap) : error;
}

cudaError_t LaunchSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream) {
  if (call.num_large > 0) {
    const bool last = call.num_small == 0;
    const cudaError_t error = LaunchLargeSelect(call, last ? times : nullptr, overlap, stream);
    if (error != cudaSuccess || last) return error;
  }
  return LaunchRank(call, times, overlap, stream);
}

}  // namespace maxsim::cuda
