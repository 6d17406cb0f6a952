#include "bench/kernels/bench_shapes.h"

namespace maxsim::bench {
namespace {

// Returns the lengths 1 to 241 in a scattered order, again and again (97 and 241 have no common divisor).
// compare_maxsim_cpu.py makes the same lengths.
std::vector<int64_t> RaggedLengths(int64_t count) {
  std::vector<int64_t> lengths(count);
  for (int64_t idx = 0; idx < count; ++idx) lengths[idx] = 1 + idx * 97 % 241;
  return lengths;
}

}  // namespace

std::vector<Shape> CpuShapes() {
  return {
      {.name = "1x1000x32x300", .num_query_tokens = 32, .dim = 128, .lengths = std::vector<int64_t>(1000, 300)},
      {.name = "1x1000x32xragged", .num_query_tokens = 32, .dim = 128, .lengths = RaggedLengths(1000)},
      {.name = "1x1000x32x30", .num_query_tokens = 32, .dim = 128, .lengths = std::vector<int64_t>(1000, 30)},
      {.name = "1x20x1024x1024", .num_query_tokens = 1024, .dim = 128, .lengths = std::vector<int64_t>(20, 1024)},
      {.name = "1x1000x32x512", .num_query_tokens = 32, .dim = 128, .lengths = std::vector<int64_t>(1000, 512)},
  };
}

}  // namespace maxsim::bench
