// Launches that are often the same as the last time: after a while they are one launch of a CUDA graph, which is done 2
// us earlier.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace maxsim::cuda {

// Not thread-safe. Not copyable: owns the graph.
class RepeatedLaunch {
 public:
  RepeatedLaunch() = default;
  ~RepeatedLaunch() { Forget(); }
  RepeatedLaunch(const RepeatedLaunch&) = delete;
  RepeatedLaunch& operator=(const RepeatedLaunch&) = delete;

  // Starts alike, with no others between, after which there is a graph: making one takes as long as several of them.
  static constexpr int kStartsBefore = 16;

  // Starts on `stream`, which must not be capturing, what `launch` starts there: kernels that are the same wherever
  // `key` is. Where no graph can be made, without one.
  absl::Status Start(cudaStream_t stream, absl::Span<const uint8_t> key, absl::FunctionRef<absl::Status()> launch);

  // Whether the last start was one of the graph.
  bool last_was_graph() const { return last_was_graph_; }

 private:
  absl::Status Capture(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch);
  absl::Status Replay(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch);
  void Forget();

  std::vector<uint8_t> last_key_;  // of the last start; empty: it was the graph's
  int num_alike_ = 0;              // such starts, one after the other
  std::vector<uint8_t> graph_key_;
  cudaGraphExec_t graph_ = nullptr;
  bool last_was_graph_ = false;
};

}  // namespace maxsim::cuda
