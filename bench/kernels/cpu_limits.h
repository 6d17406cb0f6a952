// Measures the processor's limits, from which the benchmark computes the shortest possible time of a shape.
#pragma once

namespace maxsim::bench {

struct CpuLimits {
  double read_bytes = 0;  // bytes per second that all threads read from memory far larger than the caches
  double f32 = 0;         // operations per second of fused multiply-adds (two each) in the widest vectors; 0 if unknown
};

// Measures the limits of `threads` threads that run at the same time. There must be at least one. Takes about half a
// second and 512 MiB.
CpuLimits MeasureCpuLimits(int threads);

}  // namespace maxsim::bench
