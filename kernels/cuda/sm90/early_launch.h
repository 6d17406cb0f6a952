// Launching a kernel that may begin before the one before it in the stream has ended.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// Launches `kernel` with the plan's grid. `early`: with programmatic stream serialisation, so that it begins as soon as
// the kernel before allows it; it must itself wait for what that one writes (ptx/dependent_launch.cuh).
template <class... Parameters, class... Arguments>
cudaError_t LaunchWithPlan(const ScorePlan& plan, bool early, cudaStream_t stream, void (*kernel)(Parameters...),
                           const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.grid()));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads));
  config.dynamicSmemBytes = static_cast<size_t>(plan.shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace maxsim::cuda::sm90
