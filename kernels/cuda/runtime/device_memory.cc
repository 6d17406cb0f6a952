#include "kernels/cuda/runtime/device_memory.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {
namespace {

// Adds the purpose of the memory to an allocation's error. Also clears CUDA's last error, which a failed allocation
// sets: otherwise a later launch would report it.
absl::Status Explain(const absl::Status& status, size_t bytes, absl::string_view purpose) {
  cudaGetLastError();
  std::string free_text;
  size_t free_bytes = 0, total_bytes = 0;
  if (absl::IsResourceExhausted(status) && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
    free_text = absl::StrCat("; ", free_bytes, " of ", total_bytes, " bytes of device memory are free");
  }
  return absl::Status(status.code(), absl::StrCat("cannot allocate ", bytes, " bytes for ", purpose, free_text, ": ",
                                                  status.message()));
}

}  // namespace

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(size_t bytes, absl::string_view purpose) {
  if (bytes == 0) return DeviceBuffer();
  void* data = nullptr;
  if (absl::Status status = MAXSIM_CUDA_STATUS(cudaMalloc(&data, bytes)); !status.ok()) {
    return Explain(status, bytes, purpose);
  }
  return DeviceBuffer(data, bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(size_t bytes, absl::string_view purpose) {
  if (bytes == 0) return PinnedBuffer();
  void* data = nullptr;
  if (absl::Status status = MAXSIM_CUDA_STATUS(cudaMallocHost(&data, bytes)); !status.ok()) {
    return Explain(status, bytes, absl::StrCat(purpose, " (pinned host memory)"));
  }
  return PinnedBuffer(data, bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

}  // namespace maxsim::cuda
