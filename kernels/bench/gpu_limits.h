// What the device can do at most, measured: the floors that the benchmark puts beside its times.
#pragma once

#include "absl/status/statusor.h"

namespace maxsim::bench {

struct GpuLimits {
  double read_bytes_per_second = 0;  // plain loads of memory far larger than the cache
  double f16_flops_per_second = 0;   // mma.sync m16n8k16 from registers, FP32 sums
  double bf16_flops_per_second = 0;
  double f32_flops_per_second = 0;  // fused multiply-adds
};

// Takes about 4 GiB of device memory and 0.2 s. Uses the current device.
absl::StatusOr<GpuLimits> MeasureGpuLimits();

// Reads 256 MiB that nothing else uses, so that the cache holds nothing of the last run. Waits for the end.
class CacheFlush {
 public:
  static absl::StatusOr<CacheFlush> Create();
  CacheFlush(CacheFlush&& other) noexcept;
  ~CacheFlush();
  absl::Status Run();

 private:
  explicit CacheFlush(void* memory) : memory_(memory) {}
  void* memory_;
};

}  // namespace maxsim::bench
