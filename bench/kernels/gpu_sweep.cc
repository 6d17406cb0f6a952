#include "bench/kernels/gpu_sweep.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace maxsim::bench {

bool IsRefusal(const GpuCase& shape, const absl::Status& status) {
  return shape.type == ScalarType::kI8 &&
         (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status));
}

absl::StatusOr<Sweep> RunSweep(cuda::CudaBackend& backend, const GpuLimits& limits, CacheFlush& flush,
                               const SweepOptions& options) {
  Sweep sweep;
  sweep.seed = options.seed;
  const auto begin = std::chrono::steady_clock::now();
  for (const GpuCase& shape : RandomCases(options.count, options.seed)) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (elapsed.count() > options.seconds) {
      ++sweep.num_left_out;
      continue;
    }
    absl::StatusOr<GpuRow> row = RunGpuCase(backend, shape, limits, flush, options.run);
    if (absl::IsUnavailable(row.status())) return row.status();
    if (IsRefusal(shape, row.status())) {
      if (sweep.num_refused++ == 0) sweep.refusal = std::string(row.status().message());
      continue;
    }
    const std::string name = absl::StrCat(shape.name, " ", std::string(Name(shape.type)), " d ", shape.dim);
    if (!row.ok()) {
      sweep.failures.push_back(absl::StrCat(name, ": ", row.status().ToString()));
      std::printf("%s\n", sweep.failures.back().c_str());
      continue;
    }
    sweep.rows.push_back(*row);
    if (row->limit_once_seconds <= kSweepMinSeconds) continue;
    const double ratio = row->seconds / row->limit_once_seconds;
    ++sweep.num_counted;
    if (ratio > sweep.worst_ratio) {
      sweep.worst_ratio = ratio;
      sweep.worst = sweep.rows.size() - 1;
    }
    if (ratio <= kSweepCloseRatio) {
      ++sweep.num_close;
    } else {
      std::printf("  %-44s %8.4f ms, roofline %8.4f, %5.2fx, %s\n", name.c_str(), row->seconds * 1e3,
                  row->limit_once_seconds * 1e3, ratio, row->tile.c_str());
      std::fflush(stdout);
    }
  }
  return sweep;
}

}  // namespace maxsim::bench
