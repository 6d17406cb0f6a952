#include "kernels/cuda/codes/hopper/scan_many.cuh"

#include "kernels/cuda/codes/hopper/scan_hopper.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda::sm90 {
namespace {

constexpr int kChunk = 32;  // candidates; one for each lane

using Kernel = void (*)(ScanParams, ManyPass, int);

// Indexed by planes (1, 2, 4) and by words of a row.
constexpr Kernel kKernels[3][4] = {
    {ScanManyKernel<1, 1>, ScanManyKernel<1, 2>, ScanManyKernel<1, 3>, ScanManyKernel<1, 4>},
    {ScanManyKernel<2, 1>, ScanManyKernel<2, 2>, ScanManyKernel<2, 3>, ScanManyKernel<2, 4>},
    {ScanManyKernel<4, 1>, ScanManyKernel<4, 2>, ScanManyKernel<4, 3>, ScanManyKernel<4, 4>}};

}  // namespace

cudaError_t PrepareScanMany() {
  for (const auto& of_planes : kKernels) {
    for (const Kernel kernel : of_planes) {
      const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchScanMany(const ScanParams& params, const ManyPass& pass, int planes, int32_t num_sms,
                           cudaStream_t stream) {
  const Kernel kernel = kKernels[BoundIndex(planes)][CodeWords(params.dim) - 1];
  const int64_t groups = static_cast<int64_t>(num_sms) * kManyGroups;
  const int64_t even_share = (params.num_candidates + groups - 1) / groups;
  const int chunk = static_cast<int>(even_share < kChunk ? even_share : kChunk);
  const int64_t used = (params.num_candidates + chunk * kManyGroups - 1) / (chunk * kManyGroups);
  return LaunchKernel(kernel, static_cast<unsigned>(used < num_sms ? used : num_sms), kManyThreads,
                      ManySharedBytes(pass.num_blocks()), stream, params, pass, chunk);
}

}  // namespace maxsim::cuda::sm90
