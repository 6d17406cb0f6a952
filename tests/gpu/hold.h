// Keeps multiprocessors from everybody else.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace maxsim::test {

// Launches thread blocks of `shared_bytes` of shared memory each, which stay until *release is not 0, or for ten
// seconds. Block i sets holding[i], of `num_blocks`, to 1 as it starts. All words are pinned host memory.
cudaError_t LaunchHold(int num_blocks, int shared_bytes, uint32_t* holding, const uint32_t* release,
                       cudaStream_t stream);

}  // namespace maxsim::test
