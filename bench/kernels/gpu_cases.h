// One run of one of the GPU benchmark's shapes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bench/kernels/gpu_limits.h"
#include "bench/kernels/gpu_shapes.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/shares.h"

namespace maxsim::bench {

struct RunOptions {
  uint32_t tiles = ~uint32_t{0};  // that the plan may choose (DeviceLimits::tiles)
  bool join_lists = true;         // where that saves time
  bool order_candidates = true;   // the same
  int32_t teams = -1;             // of the stream kernel's thread blocks, as StreamTuning has it
  int repetitions = 15;           // timed calls; their median counts
  bool whole_calls = true;        // time calls from host memory to host memory too
  double check_products = 2e9;    // products that the FP64 reference may take; at least one document is checked
};

// Times are medians, the cache flushed before every call.
struct GpuRow {
  GpuCase shape;
  std::string plan;
  std::string tile;
  double seconds = 0;         // scoring on the device; of a selection, that
  double select_seconds = 0;  // top 100 of each query, on the device
  double call_seconds = 0;    // the whole call
  // How long a call without copies (else 0) takes on the device, from the first launch until the end is seen: as
  // launches one by one and as one graph.
  double launches_seconds = 0;
  double graph_seconds = 0;
  // The larger of bytes over the read limit and operations over the multiply limit. A document that several lists name
  // counts for each of them in the first, and once in the second.
  double limit_seconds = 0;
  double limit_once_seconds = 0;
  bool memory_bound = false;  // which of the two the first is
  double bytes_per_second = 0;
  double operations_per_second = 0;
  double largest_error = 0;  // of sampled scores, against FP64, relative to their magnitude
};

// Makes the data on the device, checks sampled scores against FP64 (INTERNAL where one is off by more than 1e-5, or has
// other bits in a list of its own), then times. The status of the backend where it refuses the type.
absl::StatusOr<GpuRow> RunGpuCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                  CacheFlush& flush, const RunOptions& options);

// Selection alone, of scores that lie in device memory; INTERNAL where it is not what the host selects.
absl::StatusOr<GpuRow> RunSelectCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                     CacheFlush& flush, const RunOptions& options);

}  // namespace maxsim::bench
