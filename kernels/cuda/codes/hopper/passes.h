// Cuts the queries of a scan into passes of the Hopper kernel for many queries.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/codes/hopper/many_shape.h"

namespace maxsim::cuda::sm90 {

// Cuts queries into as few launches as shared memory allows, with about as many row tiles each. Element q of
// `query_tiles` is the number of row tiles of query q, 1 .. kMaxManyTiles. The tiles of query q + 1 follow those of q.
std::vector<ManyPass> CutIntoPasses(absl::Span<const int32_t> query_tiles);

}  // namespace maxsim::cuda::sm90
