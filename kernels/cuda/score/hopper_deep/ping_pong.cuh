// Ping-pong of two warpgroups that multiply the same tiles: they start products alternately, so that their instructions
// do not mix in the tensor cores' queue. The first to start is the first to end, and takes maxima while the other's
// products run.
#pragma once

#include "kernels/cuda/score/hopper_common/ptx/named_barrier.cuh"

namespace maxsim::cuda::sm90 {

class PingPong {
  static constexpr int kThreads = 256;  // of both
  static constexpr int kFirstBarrier = 1;

 public:
  // `warpgroup` 0 begins. Where it is not enabled, neither warpgroup waits.
  __device__ __forceinline__ PingPong(int warpgroup, bool enabled) : warpgroup_(warpgroup), enabled_(enabled) {
    if (enabled_ && warpgroup_ == 1) ArriveAtNamed<kThreads>(kFirstBarrier);
  }

  // Waits until the other warpgroup has passed.
  __device__ __forceinline__ void Wait() const {
    if (enabled_) WaitAtNamed<kThreads>(kFirstBarrier + warpgroup_);
  }
  // It is the other's turn.
  __device__ __forceinline__ void Pass() const {
    if (enabled_) ArriveAtNamed<kThreads>(kFirstBarrier + (warpgroup_ ^ 1));
  }

 private:
  const int warpgroup_;
  const bool enabled_;
};

}  // namespace maxsim::cuda::sm90
