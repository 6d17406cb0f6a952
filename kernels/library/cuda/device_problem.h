// A call as kernels take it.
#pragma once

#include <cstdint>

#include "kernels/library/include/maxsim/maxsim.h"

namespace maxsim::library {

// The members of a Problem that kernels read. Pointers are of the device.
struct DeviceProblem {
  maxsim_tokens queries;
  maxsim_tokens documents;
  const float* weights;       // [queries' num_rows] or null
  const int64_t* candidates;  // [pairs] or null
  int64_t list_length;
  int64_t num_pairs;
  float empty_score;
  int32_t pairing;
};

}  // namespace maxsim::library
