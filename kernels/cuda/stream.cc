#include "kernels/cuda/stream.h"

#include "kernels/cuda/cuda_error.h"

namespace maxsim::cuda {

absl::StatusOr<Stream> Stream::Create() {
  cudaStream_t stream = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

}  // namespace maxsim::cuda
