#include "kernels/cuda/runtime/cuda_error.h"

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/strings/str_cat.h"

namespace maxsim::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return absl::StatusCode::kOk;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidSymbol:
    case cudaErrorNotReady:
    case cudaErrorNotSupported:
    case cudaErrorLaunchOutOfResources:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// Returns the part of a source file's path from "kernels/" on, such as "kernels/cuda/runtime/stream.cc", whatever path
// the compiler was given.
std::string_view ShortPath(std::string_view file) {
  const size_t begin = file.rfind("kernels/");
  return begin == std::string_view::npos ? file : file.substr(begin);
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // Otherwise a later launch would report this error, although it works.
  const std::string_view path = ShortPath(file);
  return absl::Status(CodeOf(error),
                      absl::StrCat("CUDA: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ") in ", call,
                                   " at ", absl::string_view(path.data(), path.size()), ":", line));
}

}  // namespace maxsim::cuda
