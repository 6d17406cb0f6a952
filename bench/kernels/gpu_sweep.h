// A sweep runs random shapes and compares their times with their rooflines. It finds shapes that are much slower than
// the device allows.
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
  double seconds = 85;  // no shape is started after this time
  RunOptions run;
};

// The measurements of a sweep. The roofline of a row is its limit_once_seconds (GpuRow).
struct Sweep {
  uint64_t seed = 0;
  std::vector<GpuRow> rows;
  std::vector<std::string> failures;  // "shape storage d: error"
  int num_refused = 0;                // shapes of a storage type that the backend does not score
  int num_left_out = 0;               // shapes for which no time was left
  std::string refusal;                // the error of the first shape that was refused

  // These count the rows with a roofline above kSweepMinSeconds.
  int num_counted = 0;
  int num_close = 0;       // rows within kSweepCloseRatio of their rooflines
  double worst_ratio = 0;  // 0 when none counts
  size_t worst = 0;        // index of the row of that ratio
};

inline constexpr double kSweepMinSeconds = 20e-6;
inline constexpr double kSweepCloseRatio = 1.5;

// Runs RandomCases(count, seed), and checks a few documents of each against FP64. Prints a line for every shape whose
// roofline is above kSweepMinSeconds and whose time is not close to its roofline. Returns UNAVAILABLE if the device is
// lost. Other errors of a shape go to `failures`.
absl::StatusOr<Sweep> RunSweep(cuda::CudaBackend& backend, const GpuLimits& limits, CacheFlush& flush,
                               const SweepOptions& options);

// Returns whether the error means that the backend does not score the shape's storage type, which is no failure. Only
// shapes in I8 can be refused so: with INVALID_ARGUMENT, UNIMPLEMENTED or FAILED_PRECONDITION.
bool IsRefusal(const GpuCase& shape, const absl::Status& status);

}  // namespace maxsim::bench
