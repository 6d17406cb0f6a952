// Rotating and quantising queries against I8 documents on the device, bit for bit as kernels/quantize.h does it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/call/completion.h"

namespace maxsim::cuda {

struct QuantizeParams {
  const float* values;   // [num_rows, value_pitch]; absent rows zero. Device or pinned memory, as `weights`
  const float* weights;  // [num_rows]
  int8_t* rows;          // output [num_rows, row_bytes], zero past `dim`; in operand order blocks of
                         // [32, StreamQueryPitch(row_bytes)] in the order of StreamQueryOffset (kernels/plan/score.h)
  float* factors;        // output [num_rows]: weight times scale, rounded once
  uint64_t rotation_seed;
  int64_t value_pitch;  // in elements
  int32_t num_rows;
  int32_t dim;
  int32_t row_bytes;      // multiple of 16
  int32_t operand_order;  // 1 or 0
  float rotation_factor;  // RotationFactor(dim)
  int32_t unused;
  CallTimes* times;  // input_begin and input_end are noted there; null: they are not
};

// Loads the kernel's code, so that the first call that needs it does not.
cudaError_t PrepareQuantizeQueries();

// Launches the kernel. A kernel that is launched behind it with programmatic stream serialisation may begin at once.
cudaError_t LaunchQuantizeQueries(const QuantizeParams& params, cudaStream_t stream);

}  // namespace maxsim::cuda
