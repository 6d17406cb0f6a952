// What the processor can do at most, measured: the floors that the benchmark puts beside its times.
#pragma once

namespace maxsim::bench {

struct CpuLimits {
  double read_bytes = 0;  // a second: memory far larger than the caches, read by all threads
  double f32 = 0;         // fused multiply-adds in the widest vectors there are, two operations each; 0: not known
};

// Measures `threads` threads together; 1 or more. Takes about half a second and 512 MiB.
CpuLimits MeasureCpuLimits(int threads);

}  // namespace maxsim::bench
