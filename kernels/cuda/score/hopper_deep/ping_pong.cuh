// Ping-pong of two warpgroups that multiply the same tiles: they start products alternately, so that their instructions
// do not mix in the tensor cores' queue. The warpgroup that starts first also ends first, and takes maxima while the
// other warpgroup's products run.
#pragma once

#include "kernels/cuda/score/hopper_common/ptx/named_barrier.cuh"

namespace maxsim::cuda::sm90 {

class PingPong {
  static constexpr int kThreads = 256;  // of both
  static constexpr int kFirstBarrier = 1;

 public:
  // Warpgroup 0 begins. If `enabled` is false, neither warpgroup ever waits.
  __device__ __forceinline__ PingPong(int warpgroup, bool enabled) : warpgroup_(warpgroup), enabled_(enabled) {
    if (enabled_ && warpgroup_ == 1) ArriveAtNamed<kThreads>(kFirstBarrier);
  }

  // Waits for this warpgroup's turn: until the other warpgroup has called Pass.
  __device__ __forceinline__ void Wait() const {
    if (enabled_) WaitAtNamed<kThreads>(kFirstBarrier + warpgroup_);
  }
  // Gives the turn to the other warpgroup.
  __device__ __forceinline__ void Pass() const {
    if (enabled_) ArriveAtNamed<kThreads>(kFirstBarrier + (warpgroup_ ^ 1));
  }

 private:
  const int warpgroup_;
  const bool enabled_;
};

}  // namespace maxsim::cuda::sm90
