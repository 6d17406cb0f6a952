// Memory for one object at a time, with an allocator for it. Asio uses it for operations that must not fail when other
// memory runs out. Internal to server/http.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace maxsim::http {

// The owner must ensure that the object in the slot is destroyed before another is created there, and before the slot
// itself is destroyed.
class SlotMemory {
 public:
  template <typename T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(SlotMemory* of) : memory(of) {}
    template <typename U>
    Allocator(const Allocator<U>& other) : memory(other.memory) {}
    T* allocate(size_t count) {
      static_assert(sizeof(T) <= kBytes);
      if (count * sizeof(T) > kBytes) throw std::bad_alloc();
      return reinterpret_cast<T*>(memory->bytes_.data());
    }
    void deallocate(T*, size_t) {}
    template <typename U>
    bool operator==(const Allocator<U>& other) const {
      return memory == other.memory;
    }
    template <typename U>
    bool operator!=(const Allocator<U>& other) const {
      return memory != other.memory;
    }
    SlotMemory* memory;
  };

 private:
  static constexpr size_t kBytes = 1024;

  alignas(std::max_align_t) std::array<std::byte, kBytes> bytes_;
};

}  // namespace maxsim::http
