#include "kernels/cuda/host_documents/gather.h"

#include <algorithm>

#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 1024;
// Loads of a thread that are on their way together. A round trip over the link takes about 1.5 us, in which it could
// carry 80 KB: a few thread blocks of this many loads keep it full.
constexpr int kLoads = static_cast<int>(kGatherPieceBytes / (kThreads * sizeof(uint4)));

__global__ void __launch_bounds__(kThreads, 1) Gather(const GatherPiece* pieces, int64_t num_pieces) {
  for (int64_t i = blockIdx.x; i < num_pieces; i += gridDim.x) {
    const GatherPiece piece = pieces[i];
    const uint4* from = static_cast<const uint4*>(piece.from);
    uint4* to = static_cast<uint4*>(piece.to);
    const int count = static_cast<int>(piece.bytes / static_cast<int64_t>(sizeof(uint4)));
    uint4 values[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = load * kThreads + static_cast<int>(threadIdx.x);
      if (at < count) values[load] = __ldcs(from + at);
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = load * kThreads + static_cast<int>(threadIdx.x);
      if (at < count) to[at] = values[load];
    }
  }
}

}  // namespace

cudaError_t PrepareGather() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, Gather);
}

cudaError_t LaunchGather(const GatherPiece* pieces, int64_t num_pieces, int num_blocks, cudaStream_t stream) {
  if (num_pieces == 0) return cudaSuccess;
  const int blocks = static_cast<int>(std::min<int64_t>(num_pieces, num_blocks));
  return LaunchKernel(Gather, blocks, kThreads, 0, stream, pieces, num_pieces);
}

}  // namespace maxsim::cuda
