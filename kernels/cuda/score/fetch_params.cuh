// A kernel's parameters are loaded from memory in lines of 64 bytes. Each line is loaded when it is first read. At the
// start of a kernel no cache has them, and a warp that reads one line after another waits for each. So each warp of a
// thread block starts to read one line at its beginning. If there are fewer warps than lines, the other lines are
// loaded when they are first used.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

class FetchedParams {
 public:
  // Starts to read line `part` of `params`, a kernel's __grid_constant__ parameter, or its last line if there is no
  // line `part`.
  template <class Params>
  __device__ __forceinline__ FetchedParams(const Params& params, int part) {
    constexpr int kLine = 64;
    constexpr int kLast = static_cast<int>((sizeof(Params) - 1) / kLine);
    word_ = reinterpret_cast<const uint32_t*>(&params)[min(part, kLast) * (kLine / sizeof(uint32_t))];
  }

  // Waits until the line has arrived. The kernel must call this, because otherwise the compiler would omit the read.
  __device__ __forceinline__ void Wait() const {
    asm volatile("{\n.reg .pred never;\nsetp.eq.u32 never, %0, 0x9e3779b9;\n@never nanosleep.u32 1;\n}\n" ::"r"(word_));
  }

 private:
  uint32_t word_;
};

}  // namespace maxsim::cuda
