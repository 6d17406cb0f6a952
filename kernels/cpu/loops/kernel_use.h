// What a thread does before and after it runs kernels.
#pragma once

#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

// Brackets a thread's use of kernels by their `enter` and `leave`.
template <typename Similarity>
class KernelUse {
 public:
  explicit KernelUse(const Kernels<Similarity>& kernels) : kernels_(kernels) {
    if (kernels_.enter != nullptr) kernels_.enter();
  }
  KernelUse(const KernelUse&) = delete;
  KernelUse& operator=(const KernelUse&) = delete;
  ~KernelUse() {
    if (kernels_.leave != nullptr) kernels_.leave();
  }

 private:
  const Kernels<Similarity>& kernels_;
};

}  // namespace maxsim::cpu
