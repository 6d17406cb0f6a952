// Runs one of the GPU benchmark's shapes.
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
  uint32_t tiles = ~uint32_t{0};  // tilings that the plan may choose (DeviceLimits::tiles)
  bool join_lists = true;         // join lists where that saves time
  bool order_candidates = true;   // order candidates where that saves time
  int32_t teams = -1;             // StreamTuning::teams
  int repetitions = 15;           // timed calls, whose median counts
  bool whole_calls = true;        // also time calls from host memory to host memory
  double check_products = 2e9;    // products that the FP64 reference may take; at least one document is checked
};

// The measurements of a run. Times are medians, and the cache is flushed before every call.
struct GpuRow {
  GpuCase shape;
  std::string plan;
  std::string tile;
  double seconds = 0;         // scoring on the device, or the selection of a selection's case
  double select_seconds = 0;  // selecting the top 100 of each query on the device
  double call_seconds = 0;    // the whole call
  // The time of a call without copies, from its first launch until the host sees its end: launched kernel by kernel,
  // and as one graph. Both are 0 for a call with copies.
  double launches_seconds = 0;
  double graph_seconds = 0;
  // The shortest possible time. Each is the larger of two times: bytes over the read limit, and operations over the
  // multiply limit. If several lists name a document, limit_seconds counts its bytes once per list, and
  // limit_once_seconds counts them once.
  double limit_seconds = 0;
  double limit_once_seconds = 0;
  bool memory_bound = false;  // whether limit_seconds is that of the bytes
  double bytes_per_second = 0;
  double operations_per_second = 0;
  double largest_error = 0;  // error of sampled scores against FP64, relative to their magnitude
};

// Makes the data on the device, checks sampled scores against FP64, and then times the shape. Returns INTERNAL if a
// score is off by more than 1e-5 of its magnitude, or if its bits change when only the sampled documents are scored
// as a list. If the backend refuses the storage type, returns the backend's status.
absl::StatusOr<GpuRow> RunGpuCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                  CacheFlush& flush, const RunOptions& options);

// Times only the selection, of scores that are in device memory. Returns INTERNAL if the host selects other results.
absl::StatusOr<GpuRow> RunSelectCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                     CacheFlush& flush, const RunOptions& options);

}  // namespace maxsim::bench
