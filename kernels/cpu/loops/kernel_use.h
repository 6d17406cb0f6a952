// Calls Kernels::enter and Kernels::leave around the use of kernels.
#pragma once

#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

// Calls `enter` in the constructor and `leave` in the destructor. Construct and destroy it on the thread that uses the
// kernels.
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
