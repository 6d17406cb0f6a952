#include "kernels/cuda/runtime/stream.h"

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::StatusOr<Stream> Stream::Create() {
  cudaStream_t stream = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

}  // namespace maxsim::cuda
