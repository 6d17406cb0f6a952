// The queries of one pass of a scan, in the form in which the scanning and selecting kernels take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "kernels/codes/scan.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/device_limits.h"

namespace maxsim::cuda {

// Maps each mask in host memory (ScanQuery::mask) to its copy in device memory.
using DeviceMasks = absl::flat_hash_map<const uint64_t*, const uint64_t*>;

// ScanInput::bytes has five arrays, each at a multiple of 256 bytes.
inline constexpr int64_t kNumScanInputArrays = 5;
inline constexpr int64_t kScanInputAlignment = 256;

struct ScanInput {
  std::vector<uint8_t> bytes;  // all arrays, so that one copy sends them to the device
  // Where arrays of ScanParams and SelectCall begin in `bytes`.
  size_t fragments_at = 0;
  size_t rows_at = 0;
  size_t tile_queries_at = 0;
  size_t queries_at = 0;
  size_t selections_at = 0;

  int64_t scores_stride = 0;         // distance from one query's first score to the next query's, in scores
  std::vector<int32_t> query_tiles;  // row tiles of each query
  int32_t num_row_tiles = 0;         // even
  std::vector<SelectQuery> selections;
  bool large = false;  // whether the selections are large ones
  int32_t most_splits = 0;
  int32_t most_rank_blocks = 0;
  int64_t num_results = 0;
  int64_t num_keys = 0;

  int32_t num_queries() const { return static_cast<int32_t>(selections.size()); }
};

// Makes the input of one pass. `members` are the indices of its queries, which scan the same `num_candidates`
// candidates with the same number of planes. `masks` has the device's copy of every mask of these queries.
ScanInput MakeScanInput(absl::Span<const ScanQuery> queries, absl::Span<const size_t> members, const DeviceMasks& masks,
                        int64_t num_candidates, const DeviceLimits& limits);

}  // namespace maxsim::cuda
