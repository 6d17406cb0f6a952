#include "kernels/cuda/codes/scan_workspace.h"

#include <algorithm>

#include "kernels/codes/code_layout.h"
#include "kernels/codes/scan.h"
#include "kernels/cuda/codes/common/scan_params.h"
#include "kernels/cuda/codes/fragments.h"
#include "kernels/cuda/codes/scan_input.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/limits.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

// Returns the maximum size of ScanInput::bytes.
int64_t InputBytes(const CodeShape& shape) {
  constexpr int64_t kFragmentBytes = int64_t{32} * 4 * sizeof(uint32_t);  // of a step of a row tile
  // Each query may leave a part of its last row tile (16 query tokens) unused, and a pass may leave one row tile of its
  // last pair unused.
  const int64_t row_tiles = std::max(CeilDiv(int64_t{kMaxQueryTokens}, int64_t{kScanTileRows}),
                                     CeilDiv(kMaxScanCallTokens, int64_t{kScanTileRows}) + kMaxScanQueries) +
                            1;
  const int64_t row_tile_bytes = kFragmentBytes * ScanSteps(shape.dim) +
                                 int64_t{kScanTileRows} * static_cast<int64_t>(sizeof(ScanRow)) +
                                 static_cast<int64_t>(sizeof(int32_t));
  constexpr int64_t kQueryBytes = sizeof(ScanQueryParams) + sizeof(SelectQuery);
  return row_tiles * row_tile_bytes + kMaxScanQueries * kQueryBytes + kNumScanInputArrays * kScanInputAlignment;
}

}  // namespace

size_t MaxScanWorkspaceBytes(const CodeShape& shape, int64_t num_documents, const DeviceLimits& limits) {
  const int64_t documents = std::clamp<int64_t>(num_documents, 0, kMaxShardDocuments);
  if (documents == 0) return 0;
  // Assumes that all documents are candidates: a list without repeats has no more. A pass over fewer candidates may
  // take more queries, but not more scores.
  const int64_t padded = CeilDiv(documents, int64_t{kSelectAlignment}) * kSelectAlignment;
  const int64_t padding = kMaxScanQueries * kSelectAlignment;
  const int64_t scores = std::max(padded, std::min(kMaxScanQueries * padded, kMaxPassScores + padding));
  const int64_t pass_results =
      std::min(kMaxScanCallResults, kMaxScanQueries * std::min<int64_t>(documents, kMaxScanResults));
  int64_t bytes = InputBytes(shape) + scores * static_cast<int64_t>(sizeof(float)) +
                  documents * static_cast<int64_t>(sizeof(uint32_t)) +                        // a list
                  CeilDiv(documents, int64_t{64}) * static_cast<int64_t>(sizeof(uint64_t)) +  // a mask
                  kMaxScanCallResults * static_cast<int64_t>(sizeof(DeviceScored));
  if (documents > kRankAllCandidates) {
    bytes += kMaxScanQueries * static_cast<int64_t>(sizeof(SelectWorkspace)) +
             MostSelectKeys(kMaxScanQueries, pass_results, limits) * static_cast<int64_t>(sizeof(uint64_t));
  }
  return static_cast<size_t>(bytes);
}

}  // namespace maxsim::cuda
