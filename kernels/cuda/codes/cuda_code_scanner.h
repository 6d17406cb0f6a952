// Scans codes on a GPU. Its results have the same bits as those of CodeScanner (kernels/cpu/codes/code_scanner.h) on a
// CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/codes/scan.h"
#include "kernels/cuda/codes/cuda_codes.h"
#include "kernels/cuda/codes/scan_input.h"
#include "kernels/cuda/codes/scan_workspace.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Runs scans one after another on its own CUDA stream. Its workspace grows with the calls up to a bound
// (scan_workspace.h, docs/internals/memory-bounds.md#scans-of-codes). Move-only; not thread-safe. Several scanners may
// run at the same time on one device.
class CudaCodeScanner {
 public:
  // The kernels that a scanner uses: the fastest ones for its device, or those that run on every device. Both give the
  // same results; kPortable is for tests and measurements.
  enum class Kernels : uint8_t { kFastest, kPortable };

  // `device` must outlive this object. A call with more than `max_scores` scores (queries times candidates) takes
  // several passes. A single query always takes one pass, even if it has more scores.
  static absl::StatusOr<CudaCodeScanner> Create(Device& device, int64_t max_scores = kMaxPassScores,
                                                Kernels kernels = Kernels::kFastest);

  struct Call {
    const CudaCodes* codes = nullptr;
    absl::Span<const ScanQuery> queries;
    absl::Span<std::vector<Scored>> results;  // one element per query; overwritten
  };

  // Does what CodeScanner::Scan does, for each call. The arrays that queries point to are in host memory. Enqueues the
  // work of all calls and then waits for the device once, or more often if the workspace has to grow. After an error
  // the results are unspecified. Also returns INVALID_ARGUMENT if codes are on another device than this scanner,
  // RESOURCE_EXHAUSTED if there is too little memory (the next scan may work), and UNAVAILABLE if the device is lost
  // (the device's health then returns the same error).
  absl::Status Scan(absl::Span<const Call> calls);
  absl::Status Scan(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                    absl::Span<std::vector<Scored>> results) {
    const Call call{.codes = &codes, .queries = queries, .results = results};
    return Scan({&call, 1});
  }

  // Returns the device memory that the workspace takes now.
  size_t workspace_bytes() const;

  // Returns the seconds that the scanning kernels of the last Scan took on the device, in all passes together.
  double scan_seconds() const { return scan_seconds_; }
  // Returns the seconds that the selecting kernels of the last Scan took on the device, in all passes together.
  double select_seconds() const { return select_seconds_; }

 private:
  explicit CudaCodeScanner(Device& device) : device_(&device) {}

  // A pass over `members`, indices into call->queries. The members have the same candidates, at least one, and the same
  // number of planes (bits per value).
  struct Pass {
    const Call* call = nullptr;
    std::vector<size_t> members;
    ScanInput input = {};      // a copy may read it until the CUDA stream is done
    int64_t first_result = 0;  // of its results in results_
  };
  struct PassEvents {
    Event begin, scanned, end;
  };

  absl::Status ScanOnDevice(absl::Span<const Call> calls);
  // Divides the queries of all calls into passes, and returns these without their input. Clears the results of queries
  // without candidates.
  std::vector<Pass> PassesOf(absl::Span<const Call> calls) const;
  absl::Status Enqueue(Pass& pass, PassEvents& events);
  absl::Status AddTimes(const PassEvents& events);
  absl::Status MakeEvents(size_t num_passes);
  // Returns whether a Hopper kernel scans for this query.
  bool UsesHopper(const CudaCodes& codes, const ScanQuery& query) const;
  // Returns the indices of `first` and of the later queries that one pass may scan together with it. Marks all of them
  // in `taken`.
  std::vector<size_t> MembersOf(const CudaCodes& codes, absl::Span<const ScanQuery> queries, size_t first,
                                std::vector<bool>& taken) const;

  // The steps of a pass. Each step enqueues copies or kernels. The memory that copies read must live until the CUDA
  // stream is done.
  absl::StatusOr<DeviceMasks> SendMasks(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                        absl::Span<const size_t> members);
  absl::Status SendOrdinals(const ScanQuery& query);
  absl::Status SendInput(const ScanInput& input);
  // Copies a pass's input to pinned memory, if host_inputs_ has room for it. Returns the bytes to copy to the device.
  const uint8_t* StageInput(const ScanInput& input);
  absl::Status LaunchScan(const CudaCodes& codes, const ScanQuery& first, int64_t num_candidates,
                          const ScanInput& input);
  absl::Status LaunchSelection(const Pass& pass);
  // Makes `buffer` at least `bytes` large. If that replaces memory, it first waits for the CUDA stream, whose kernels
  // may use the memory. An error names the memory's purpose, `what`.
  absl::Status Grow(DeviceBuffer& buffer, size_t bytes, absl::string_view what);

  Device* device_;
  int64_t max_scores_ = kMaxPassScores;
  bool hopper_ = false;  // whether Hopper kernels may be used
  Stream stream_;
  std::vector<PassEvents> events_;  // at least one for each pass
  DeviceBuffer input_, ordinals_, masks_, scores_, keys_, workspaces_, results_;
  PinnedBuffer host_results_;   // Scored: the results of the passes, one after another
  PinnedBuffer host_inputs_;    // ScanInput::bytes of the first passes, one after another
  size_t host_inputs_end_ = 0;  // bytes of host_inputs_ that the passes of this call use so far
  double scan_seconds_ = 0;
  double select_seconds_ = 0;
};

}  // namespace maxsim::cuda
