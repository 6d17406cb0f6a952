#include "kernels/cuda/runtime/device.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::Status DeviceHealth::Note(absl::Status status) {
  if (absl::IsUnavailable(status)) {
    std::lock_guard lock(mutex_);
    if (first_lost_.ok()) first_lost_ = status;
  }
  return status;
}

absl::Status DeviceHealth::Get() const {
  std::lock_guard lock(mutex_);
  return first_lost_;
}

CurrentDevice::CurrentDevice(int ordinal) {
  int current = -1;
  status_ = MAXSIM_CUDA_STATUS(cudaGetDevice(&current));
  if (!status_.ok() || current == ordinal) return;
  status_ = MAXSIM_CUDA_STATUS(cudaSetDevice(ordinal));
  if (status_.ok()) previous_ = current;
}

CurrentDevice::~CurrentDevice() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

}  // namespace maxsim::cuda
