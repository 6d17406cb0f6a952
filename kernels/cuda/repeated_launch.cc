#include "kernels/cuda/repeated_launch.h"

#include "kernels/cuda/cuda_error.h"

namespace maxsim::cuda {
void RepeatedLaunch::Forget() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
}

absl::Status RepeatedLaunch::Capture(cudaStream_t stream, absl::FunctionRef<absl::Status()> launch) {
  cudaGraph_t graph = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const absl::Status launched = launch();
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream, &graph));
  const cudaError_t error = launched.ok() ? cudaGraphInstantiate(&graph_, graph, 0) : cudaSuccess;
  cudaGraphDestroy(graph);
  MAXSIM_RETURN_IF_CUDA_ERROR(error);
  return launched;
}

absl::Status RepeatedLaunch::Start(cudaStream_t stream, absl::Span<const uint8_t> key,
                                   absl::FunctionRef<absl::Status()> launch) {
  last_was_graph_ = graph_ != nullptr && key == absl::MakeConstSpan(graph_key_);
  if (last_was_graph_) return MAXSIM_CUDA_STATUS(cudaGraphLaunch(graph_, stream));
  if (key != absl::MakeConstSpan(last_key_)) {
    last_key_.assign(key.begin(), key.end());
    num_alike_ = 0;
  }
  if (num_alike_++ < kStartsBefore) return launch();
  num_alike_ = 0;
  Forget();
  if (!Capture(stream, launch).ok()) return launch();
  graph_key_ = last_key_;
  last_was_graph_ = true;
  return MAXSIM_CUDA_STATUS(cudaGraphLaunch(graph_, stream));
}

}  // namespace maxsim::cuda
