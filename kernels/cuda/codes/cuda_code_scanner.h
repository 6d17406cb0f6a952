// The scan of a GPU: what CodeScanner (kernels/codes/scan.h) is on a CPU, with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codes/scan.h"
#include "kernels/cuda/codes/cuda_codes.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Runs scans one after another on a CUDA stream of its own, with a workspace that grows with the calls. Move-only; not
// thread-safe. Several scanners may run at once on one device.
class CudaCodeScanner {
 public:
  // Scores of candidates of all queries that are scanned together: more queries are scanned in several passes.
  static constexpr int64_t kDefaultMaxScores = int64_t{1} << 29;

  // `device` must outlive this object.
  static absl::StatusOr<CudaCodeScanner> Create(const Device& device, int64_t max_scores = kDefaultMaxScores);

  // Does what CodeScanner::Scan does. `codes` are on this scanner's device. The arrays that queries point to are in
  // host memory. UNAVAILABLE where the device is lost.
  absl::Status Scan(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                    absl::Span<std::vector<Scored>> results);

  // Seconds that the device took for the last call's passes together: from the first launch of each to the end of its
  // selection, without copies.
  double scan_seconds() const { return scan_seconds_; }
  double select_seconds() const { return select_seconds_; }

 private:
  explicit CudaCodeScanner(const Device& device) : device_(&device) {}

  // Scans queries over the same candidates and of the same number of planes together.
  absl::Status ScanTogether(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                            absl::Span<const size_t> members, absl::Span<std::vector<Scored>> results);
  // Makes `buffer` at least this large.
  static absl::Status Grow(DeviceBuffer& buffer, size_t bytes);

  const Device* device_;
  int64_t max_scores_ = kDefaultMaxScores;
  Stream stream_;
  Event begin_, scanned_, end_;
  DeviceBuffer input_, ordinals_, masks_, scores_, keys_, workspaces_, results_;
  double scan_seconds_ = 0;
  double select_seconds_ = 0;
};

}  // namespace maxsim::cuda
