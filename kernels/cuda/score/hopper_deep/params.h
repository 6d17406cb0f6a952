// The parameters of the deep kernels, which host and device share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/hopper_common/params.h"

namespace maxsim::cuda {

// `unused` fills up the eight aligned bytes of num_chunks, so that the compiler loads num_chunks by itself.
struct DeepParams : WorkQueueParams {
  int32_t num_chunks;  // column chunks of kDeepChunkBytes in a row
  int32_t unused;
  int32_t stages;          // pipeline stages of the ring
  int32_t query_resident;  // 1: query rows stay in shared memory; 0: they come with every token tile
};
static_assert(std::is_trivially_copyable_v<DeepParams>);

}  // namespace maxsim::cuda
