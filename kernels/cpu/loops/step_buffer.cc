#include "kernels/cpu/loops/step_buffer.h"

namespace maxsim::cpu {

uint32_t* StepBuffer::Reserve(size_t num_steps) {
  if (num_steps > capacity_) {
    memory_.reset();
    capacity_ = 0;  // stays 0 when there is no memory for more
    memory_.reset(static_cast<uint32_t*>(::operator new (num_steps * sizeof(uint32_t), std::align_val_t{64})));
    capacity_ = num_steps;
  }
  return memory_.get();
}

}  // namespace maxsim::cpu
