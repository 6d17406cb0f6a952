#include "kernels/cuda/runtime/repeated_launch.h"

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

void RepeatedLaunch::Forget() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
}

absl::Status RepeatedLaunch::Capture(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch) {
  cudaGraph_t graph = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  absl::Status launched = launch();
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream, &graph));
  const cudaError_t error = launched.ok() ? cudaGraphInstantiate(&graph_, graph, 0) : cudaSuccess;
  cudaGraphDestroy(graph);
  MAXSIM_RETURN_IF_CUDA_ERROR(error);
  return launched;
}

absl::Status RepeatedLaunch::Replay(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch) {
  num_alike_ = 0;
  last_key_.clear();
  last_was_graph_ = cudaGraphLaunch(graph_, stream) == cudaSuccess;
  if (last_was_graph_) return absl::OkStatus();
  Forget();
  return launch();
}

absl::Status RepeatedLaunch::Start(cudaStream_t stream, absl::Span<const uint8_t> key,
                                   absl::FunctionRef<absl::Status()> launch) {
  last_was_graph_ = false;
  if (graph_ != nullptr && key == absl::MakeConstSpan(graph_key_)) return Replay(stream, launch);
  if (key != absl::MakeConstSpan(last_key_)) {
    last_key_.assign(key.begin(), key.end());
    num_alike_ = 0;
  }
  if (num_alike_++ < kStartsBefore) return launch();
  num_alike_ = 0;
  Forget();
  if (!Capture(stream, launch).ok()) return launch();
  graph_key_ = last_key_;
  return Replay(stream, launch);
}

}  // namespace maxsim::cuda
