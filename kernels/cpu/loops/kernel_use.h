// Lets a thread prepare for running kernels and clean up afterwards.
#pragma once

#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

// Calls the kernels' `enter` when constructed and their `leave` when destroyed, on the thread that uses them.
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
