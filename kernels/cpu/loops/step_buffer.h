// Scratch memory of the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace maxsim::cpu {

// A buffer of steps (32-bit words), aligned to 64 bytes. It grows when needed and never shrinks. Growing loses its
// contents.
class StepBuffer {
 public:
  // Returns memory for `num_steps` steps, valid until a call needs more. Throws std::bad_alloc if there is no memory.
  uint32_t* Reserve(size_t num_steps);
  // Reserves elements of another type of 32 bits.
  template <typename T>
  T* ReserveAs(size_t count) {
    static_assert(sizeof(T) == sizeof(uint32_t));
    return reinterpret_cast<T*>(Reserve(count));
  }

 private:
  struct Free {
    void operator()(uint32_t* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  std::unique_ptr<uint32_t, Free> memory_;
  size_t capacity_ = 0;
};

}  // namespace maxsim::cpu
