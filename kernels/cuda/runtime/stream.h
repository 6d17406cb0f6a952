// The owner of a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/statusor.h"

namespace maxsim::cuda {

// Move-only. Does not synchronise with the legacy default stream.
class Stream {
 public:
  // Creates a CUDA stream on the current device.
  static absl::StatusOr<Stream> Create();

  Stream() = default;
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  cudaStream_t get() const { return stream_; }

 private:
  explicit Stream(cudaStream_t stream) : stream_(stream) {}

  cudaStream_t stream_ = nullptr;
};

// Waits at the end of a scope for everything that was started on a CUDA stream, unless Finished was called. So after an
// error no copy still reads memory that is about to be used again.
class FinishOnError {
 public:
  explicit FinishOnError(cudaStream_t stream) : stream_(stream) {}
  ~FinishOnError() {
    if (!finished_) cudaStreamSynchronize(stream_);
  }
  FinishOnError(const FinishOnError&) = delete;
  FinishOnError& operator=(const FinishOnError&) = delete;

  // Says that everything has been waited for.
  void Finished() { finished_ = true; }

 private:
  const cudaStream_t stream_;
  bool finished_ = false;
};

}  // namespace maxsim::cuda
