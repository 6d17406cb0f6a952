// Random shapes against their roofline: is any of them far from what the device can do?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/kernels/gpu_cases.h"

namespace maxsim::bench {

struct SweepOptions {
  int count = 0;
  uint64_t seed = 1;
  double seconds = 85;  // after which no further shape is begun
  RunOptions run;
};

// The rows' limit_once_seconds are their rooflines.
struct Sweep {
  uint64_t seed = 0;
  std::vector<GpuRow> rows;
  std::vector<std::string> failures;  // "shape storage d: error"
  int num_refused = 0;                // of a storage type that the backend does not score
  int num_left_out = 0;               // for want of time
  std::string refusal;                // the first one's error

  // These count the rows with a roofline above kSweepMinSeconds.
  int num_counted = 0;
  int num_close = 0;       // within kSweepCloseRatio
  double worst_ratio = 0;  // 0 when none counts
  size_t worst = 0;        // which row that is
};

inline constexpr double kSweepMinSeconds = 20e-6;
inline constexpr double kSweepCloseRatio = 1.5;

// Runs RandomCases(count, seed), each checked against FP64 on a few documents. Prints a line for every shape that
// counts and is not close. UNAVAILABLE when the device is lost; other errors of a shape are its own.
absl::StatusOr<Sweep> RunSweep(cuda::CudaBackend& backend, const GpuLimits& limits, CacheFlush& flush,
                               const SweepOptions& options);

// True for the error of a storage type that the backend does not score (yet), which is no failure of the benchmark.
bool IsRefusal(const GpuCase& shape, const absl::Status& status);

}  // namespace maxsim::bench
