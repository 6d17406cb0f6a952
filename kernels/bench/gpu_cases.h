// The shapes that the GPU benchmark runs, and one run of one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/bench/gpu_limits.h"
#include "kernels/cuda/call_wait.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/scalar_type.h"

namespace maxsim::bench {

struct GpuCase {
  std::string name;
  ScalarType type = ScalarType::kF16;
  int32_t dim = 128;
  int32_t num_queries = 1;
  int32_t query_tokens = 32;
  int64_t num_documents = 0;
  int32_t document_tokens = 0;  // of each document; 0: ragged, 8 to 512, mean near 121
  int64_t list_size = 0;        // candidates of each query, drawn at random; 0: every document
};

// The shapes of the comparison with other implementations (docs/performance), and some of other types and widths.
std::vector<GpuCase> GpuCases();

struct GpuRow {
  GpuCase shape;
  std::string plan;
  std::string tile;
  double score_seconds = 0;   // scoring on the device: medians, the cache flushed before
  double select_seconds = 0;  // top 100 on the device
  double call_seconds = 0;    // the whole call, from host memory to host memory
  double floor_seconds = 0;   // the larger of bytes over the read limit and operations over the multiply limit
  bool memory_bound = false;  // which of the two
  double bytes_per_second = 0;
  double flops_per_second = 0;
  double largest_error = 0;  // of sampled scores, against FP64, relative to their magnitude
};

// Makes the data on the device, checks sampled scores against FP64 (an error where one is off by more than 1e-5), and
// times `repetitions` calls. The plan chooses among `tiles` (DeviceLimits::tiles). `wait`: how calls are waited for.
absl::StatusOr<GpuRow> RunGpuCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                  CacheFlush& flush, uint32_t tiles, cuda::WaitMode wait, int repetitions);

// Selection alone: the best k of `num_scores` scores that lie in device memory, for each of `num_queries` queries in
// one launch.
struct SelectCase {
  int64_t num_scores = 0;
  int32_t k = 0;
  int32_t num_queries = 1;

  std::string Name() const;  // "topk:1000000k100", "topk:1000k100q32"
};

std::vector<SelectCase> SelectCases();

struct SelectRow {
  SelectCase shape;
  std::string plan;
  double seconds = 0;
  double floor_seconds = 0;  // one read of the scores
};
absl::StatusOr<SelectRow> RunSelectCase(cuda::CudaBackend& backend, const SelectCase& shape, const GpuLimits& limits,
                                        CacheFlush& flush, int repetitions);

}  // namespace maxsim::bench
