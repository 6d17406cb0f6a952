// Rotates and quantises queries against I8 documents on the device. Gives the same bits as kernels/quantize.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/select/completion.h"

namespace maxsim::cuda {

struct QuantizeParams {
  const float* values;   // [num_rows, value_pitch], in device or pinned memory; absent rows are zero
  const float* weights;  // [num_rows], in device or pinned memory
  // Output [num_rows, row_bytes], zero past `dim`. If operand_order is 1: blocks of [32, StreamQueryPitch(row_bytes)]
  // in the order of StreamQueryOffset (kernels/plan/hopper_stream_shape.h).
  int8_t* rows;
  float* factors;          // output [num_rows]: weight times scale, rounded once
  uint64_t rotation_seed;  // DocumentsView::rotation_seed
  int64_t value_pitch;     // elements of a row of `values`
  int32_t num_rows;
  int32_t dim;
  int32_t row_bytes;      // a multiple of 16
  int32_t operand_order;  // 1: `rows` is in operand order; 0: it is row-major
  float rotation_factor;  // RotationFactor(dim)
  int32_t unused;         // zero, so that parameters can be compared byte by byte
  CallTimes* times;       // in pinned memory, for input_begin and input_end; may be null
};

// Loads the kernel's code onto the device, so that the first call need not wait for it. Call it once per device.
cudaError_t PrepareQuantizeQueries();

// Starts the kernel that rotates and quantises the rows. Does nothing if there are no rows. The next kernel on the CUDA
// stream may begin before this one has ended, if it is launched with programmatic stream serialisation.
cudaError_t LaunchQuantizeQueries(const QuantizeParams& params, cudaStream_t stream);

}  // namespace maxsim::cuda
