// The parameters of the wide kernels, which host and device share.
#pragma once

#include <type_traits>

#include "kernels/cuda/score/hopper_common/params.h"

namespace maxsim::cuda {

// A wide kernel's sizes are constants of its instance, so its only parameters are its work.
struct WideParams : WorkQueueParams {};
static_assert(std::is_trivially_copyable_v<WideParams>);

}  // namespace maxsim::cuda
