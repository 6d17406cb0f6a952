// Measures the device's limits, from which the benchmark computes the shortest possible time of a shape.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/scalar_type.h"

namespace maxsim::bench {

// Rates per second. An operation is a product or a sum. Operands are random: zeros draw less power and run faster.
struct GpuLimits {
  double read_bytes = 0;    // plain 16-byte loads of memory far larger than the cache
  double upload_bytes = 0;  // copies from pinned host memory to the device, of 256 MiB each
  double f32 = 0;           // fused multiply-adds
  // Operations of mma.sync from registers, and of Hopper's wgmma with one operand in shared memory (0 on other
  // devices).
  double f16_mma = 0, f16_wgmma = 0;
  double bf16_mma = 0, bf16_wgmma = 0;
  double i8_mma = 0, i8_wgmma = 0;

  // Returns the operations per second for a storage type, by the faster way of multiplying it.
  double Operations(ScalarType type) const {
    switch (type) {
      case ScalarType::kF32:
        return f32;
      case ScalarType::kF16:
        return std::max(f16_mma, f16_wgmma);
      case ScalarType::kBF16:
        return std::max(bf16_mma, bf16_wgmma);
      case ScalarType::kI8:
        return std::max(i8_mma, i8_wgmma);
      case ScalarType::kResidual1:
      case ScalarType::kResidual2:
      case ScalarType::kResidual4:
      case ScalarType::kResidual8:
        return f16_mma;  // they are decoded to F16
    }
    return 0;
  }
};

// Returns the version of the kernel driver. If its module does not show it, returns the CUDA version that the driver
// supports.
std::string DriverVersion();

// Measures the current device. Takes about 4 GiB of device memory, 256 MiB of pinned host memory and 0.5 s.
absl::StatusOr<GpuLimits> MeasureGpuLimits();

// Reads 256 MiB that nothing else uses, so that the cache keeps nothing of the previous run. Does not write, since
// cache lines that still have to be written back would slow down the next kernel.
class CacheFlush {
 public:
  static absl::StatusOr<CacheFlush> Create();
  CacheFlush(CacheFlush&& other) noexcept;
  ~CacheFlush();
  // Enqueues the read on a CUDA stream, so that the cache is flushed for work that is enqueued after it. The read
  // takes 60 us. The host launches that work during this time, so the launches add no time.
  absl::Status Enqueue(cudaStream_t stream);
  // Reads, and returns when the read has finished.
  absl::Status Run();

 private:
  explicit CacheFlush(void* memory) : memory_(memory) {}
  void* memory_;
};

}  // namespace maxsim::bench
