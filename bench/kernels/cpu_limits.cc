#include "bench/kernels/cpu_limits.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace maxsim::bench {
namespace {

constexpr size_t kWords = size_t{64} << 20;  // words of 8 bytes that all threads read together
constexpr int kRepetitions = 5;
constexpr int kSums = 12;  // independent sums, which hide the latency of an addition
constexpr int kIterations = 4000000;

std::atomic<uint64_t> sink;

double LimitNow(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Returns the seconds of the best run of `work` on every thread. As in the benchmark, this is CPU time for a single
// thread and wall time for several.
double BestOfThreads(int threads, const std::function<void(int)>& work) {
  double best = 1e300;
  for (int run = 0; run < kRepetitions; ++run) {
    const double begin = LimitNow(threads);
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
    for (std::thread& other : others) other.join();
    best = std::min(best, LimitNow(threads) - begin);
  }
  return best;
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) void MultiplyAdd512() {
  __m512 sums[kSums], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (__m512& sum : sums) sum = b;
  for (int i = 0; i < kIterations; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  }
  for (int n = 1; n < kSums; ++n) sums[0] = _mm512_add_ps(sums[0], sums[n]);
  float lanes[16];
  _mm512_storeu_ps(lanes, sums[0]);
  sink += static_cast<uint64_t>(lanes[0]);
}

__attribute__((target("avx2,fma"))) void MultiplyAdd256() {
  __m256 sums[kSums], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (__m256& sum : sums) sum = b;
  for (int i = 0; i < kIterations; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  for (int n = 1; n < kSums; ++n) sums[0] = _mm256_add_ps(sums[0], sums[n]);
  float lanes[8];
  _mm256_storeu_ps(lanes, sums[0]);
  sink += static_cast<uint64_t>(lanes[0]);
}

double MeasureMultiplyAdds(int threads) {
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  if (!wide && (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))) return 0;
  const double seconds = BestOfThreads(threads, [wide](int) { wide ? MultiplyAdd512() : MultiplyAdd256(); });
  return 2.0 * (wide ? 16 : 8) * kSums * kIterations * threads / seconds;
}

#else

double MeasureMultiplyAdds(int /*threads*/) { return 0; }

#endif

}  // namespace

CpuLimits MeasureCpuLimits(int threads) {
  std::vector<uint64_t> memory(kWords, 1);
  const size_t share = kWords / static_cast<size_t>(threads);
  const double seconds = BestOfThreads(threads, [&](int thread) {
    const uint64_t* words = memory.data() + static_cast<size_t>(thread) * share;
    uint64_t sum = 0;
    for (size_t n = 0; n < share; ++n) sum += words[n];
    sink += sum;
  });
  CpuLimits limits;
  limits.read_bytes = static_cast<double>(share * static_cast<size_t>(threads) * sizeof(uint64_t)) / seconds;
  limits.f32 = MeasureMultiplyAdds(threads);
  return limits;
}

}  // namespace maxsim::bench
