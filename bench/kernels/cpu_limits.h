// Measures the most that the processor can do, from which the benchmark computes the least possible time of a shape.
#pragma once

namespace maxsim::bench {

struct CpuLimits {
  double read_bytes = 0;  // bytes a second that all threads read from memory far larger than the caches
  double f32 = 0;         // operations a second of fused multiply-adds, two each, in the widest vectors; 0: not known
};

// Measures `threads` >= 1 threads together. Takes about half a second and 512 MiB.
CpuLimits MeasureCpuLimits(int threads);

}  // namespace maxsim::bench
