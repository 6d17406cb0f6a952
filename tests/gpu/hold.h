// Occupies multiprocessors, so that other kernels cannot use them.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"

namespace maxsim::test {

// Launches `num_blocks` thread blocks with `shared_bytes` of shared memory each. Block i sets holding[i] to 1 when it
// starts. All blocks run until *release is not 0, at most ten seconds. Both pointers must be to pinned host memory.
cudaError_t LaunchHold(int num_blocks, int shared_bytes, uint32_t* holding, const uint32_t* release,
                       cudaStream_t stream);

// Returns whether `done` becomes true within five seconds.
template <class Done>
bool WaitFor(Done done) {
  for (int ms = 0; ms < 5000 && !done(); ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return done();
}

// Occupies multiprocessors until they are released, or the object is destroyed.
class HeldMultiprocessors {
 public:
  // Starts a thread block of `shared_bytes` on each of `count` multiprocessors.
  HeldMultiprocessors(int count, int shared_bytes)
      : stream_(*cuda::Stream::Create()),
        words_(*cuda::PinnedBuffer::Allocate((static_cast<size_t>(count) + 1) * sizeof(uint32_t), "test")),
        release_(words_.as<uint32_t>() + count) {
    std::fill(words_.as<uint32_t>(), release_ + 1, 0);
    launched_ = LaunchHold(count, shared_bytes, words_.as<uint32_t>(), release_, stream_.get()) == cudaSuccess;
  }
  ~HeldMultiprocessors() {
    Release();
    cudaStreamSynchronize(stream_.get());
  }
  HeldMultiprocessors(const HeldMultiprocessors&) = delete;
  HeldMultiprocessors& operator=(const HeldMultiprocessors&) = delete;

  bool AllHeld() const {
    return launched_ && WaitFor([this] {
             return std::all_of(words_.as<uint32_t>(), release_,
                                [](uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED) == 1; });
           });
  }
  void Release() { __atomic_store_n(release_, 1u, __ATOMIC_RELEASE); }

 private:
  cuda::Stream stream_;
  cuda::PinnedBuffer words_;
  uint32_t* release_;
  bool launched_ = false;
};

}  // namespace maxsim::test
