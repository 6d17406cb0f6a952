// Starts launches that are often identical to the ones before. After kStartsBefore identical starts, a RepeatedLaunch
// replaces the launches by one launch of a CUDA graph, which ends 2 us earlier.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace maxsim::cuda {

// Owns the graph, so that it is not copyable. Not thread-safe.
class RepeatedLaunch {
 public:
  RepeatedLaunch() = default;
  ~RepeatedLaunch() { Forget(); }
  RepeatedLaunch(const RepeatedLaunch&) = delete;
  RepeatedLaunch& operator=(const RepeatedLaunch&) = delete;

  // A graph is made after this many identical starts with no others between them: making a graph takes as long as
  // several starts.
  static constexpr int kStartsBefore = 16;

  // Starts on `stream`, which must not be capturing, the kernels that `launch` starts there: by calling `launch`, or
  // by replaying the graph. For equal `key`s, `launch` must start equal kernels. If no graph can be made, calls
  // `launch`. Returns the error of `launch`.
  absl::Status Start(cudaStream_t stream, absl::Span<const uint8_t> key, absl::FunctionRef<absl::Status()> launch);

  // Returns whether the last start replayed the graph.
  bool last_was_graph() const { return last_was_graph_; }

 private:
  absl::Status Capture(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch);
  absl::Status Replay(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch);
  void Forget();

  std::vector<uint8_t> last_key_;   // the key of the last start; empty if that start replayed the graph
  int num_alike_ = 0;               // starts of that key, one after the other
  std::vector<uint8_t> graph_key_;  // the key of graph_
  cudaGraphExec_t graph_ = nullptr;
  bool last_was_graph_ = false;
};

}  // namespace maxsim::cuda
