// The parameters of the deep kernels, which host and device share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/hopper_common/params.h"

namespace maxsim::cuda {

// num_chunks shares its eight aligned bytes with nothing, so that it is loaded by itself where it is used.
struct DeepParams : WorkQueueParams {
  int32_t num_chunks;  // column chunks of kDeepChunkBytes in a row
  int32_t unused;
  int32_t stages;          // pipeline stages of the ring
  int32_t query_resident;  // 1: query rows stay in shared memory; 0: they come with every token tile
};
static_assert(std::is_trivially_copyable_v<DeepParams>);

}  // namespace maxsim::cuda
