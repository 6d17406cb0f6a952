#include "kernels/cuda/codes/hopper/scan_one.cuh"

#include "kernels/cuda/codes/hopper/scan_hopper.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda::sm90 {
namespace {

using Kernel = void (*)(ScanParams);

// Indexed by planes (1, 2, 4) and by words of a row.
constexpr Kernel kKernels[3][4] = {
    {ScanOneKernel<1, 1>, ScanOneKernel<1, 2>, ScanOneKernel<1, 3>, ScanOneKernel<1, 4>},
    {ScanOneKernel<2, 1>, ScanOneKernel<2, 2>, ScanOneKernel<2, 3>, ScanOneKernel<2, 4>},
    {ScanOneKernel<4, 1>, ScanOneKernel<4, 2>, ScanOneKernel<4, 3>, ScanOneKernel<4, 4>}};

}  // namespace

cudaError_t PrepareScanOne() {
  for (const auto& of_planes : kKernels) {
    for (const Kernel kernel : of_planes) {
      const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(OneShared));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchScanOne(const ScanParams& params, int planes, int32_t num_sms, cudaStream_t stream) {
  const int32_t words = CodeWords(params.dim);
  const Kernel kernel = kKernels[BoundIndex(planes)][words - 1];
  const int64_t most = static_cast<int64_t>(num_sms) * OneBlocksPerSm(planes, words);
  const int64_t blocks = (params.num_candidates + kOneWarps - 1) / kOneWarps;  // a document for each warp
  return LaunchKernel(kernel, static_cast<unsigned>(blocks < most ? blocks : most), kOneThreads, sizeof(OneShared),
                      stream, params);
}

}  // namespace maxsim::cuda::sm90
