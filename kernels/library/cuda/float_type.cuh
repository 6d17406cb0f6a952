// Chooses an instance of a template by the type of a call's elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/library/include/maxsim/maxsim.h"

namespace maxsim::library {

// Returns function(T{}), where T is float for MAXSIM_F32, __half for MAXSIM_F16, and __nv_bfloat16 for MAXSIM_BF16.
template <class Function>
auto WithFloatType(int32_t type, Function function) {
  switch (type) {
    case MAXSIM_F32:
      return function(float{});
    case MAXSIM_F16:
      return function(__half{});
    default:
      return function(__nv_bfloat16{});
  }
}

}  // namespace maxsim::library
