// The shapes that both the CPU benchmark and bench/kernels/compare_maxsim_cpu.py time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace maxsim::bench {

struct Shape {
  std::string name;
  int32_t num_query_tokens = 32;
  int32_t dim = 128;
  std::vector<int64_t> lengths;  // document tokens
};

// Returns the shapes. The name of a shape is queries x documents x query tokens x document tokens, such as
// "1x1000x32x300". In place of the document tokens, "ragged" means document lengths between 1 and 241 with a mean of
// 121.
std::vector<Shape> CpuShapes();

}  // namespace maxsim::bench
