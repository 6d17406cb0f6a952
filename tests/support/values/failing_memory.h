// Replaces operator new, so that a test can make a thread's allocations fail after any number of successful ones. Only
// one file of a program may include this header. It cannot be used in sanitizer builds, because sanitizers replace
// operator new too.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

namespace maxsim::test {

inline constexpr int64_t kEnoughMemory = std::numeric_limits<int64_t>::max();

// The number of this thread's next allocations that succeed. All later ones throw std::bad_alloc.
inline thread_local int64_t allocations_left = kEnoughMemory;

// While the object lives, this thread has memory for `count` allocations.
class MemoryEnds {
 public:
  explicit MemoryEnds(int64_t count) { allocations_left = count; }
  ~MemoryEnds() { allocations_left = kEnoughMemory; }
  MemoryEnds(const MemoryEnds&) = delete;
  MemoryEnds& operator=(const MemoryEnds&) = delete;
};

// Runs `work` repeatedly. In run n (from 0), only the first n allocations succeed. Stops when a run succeeds, and
// returns the number of failed runs. `work` may fail only with std::bad_alloc.
inline int FailAtEachAllocation(const std::function<void()>& work) {
  for (int count = 0;; ++count) {
    try {
      const MemoryEnds ends(count);
      work();
      return count;
    } catch (const std::bad_alloc&) {
    }
  }
}

}  // namespace maxsim::test

void* operator new(size_t size) {
  int64_t& left = maxsim::test::allocations_left;
  if (left > 0) {
    if (left != maxsim::test::kEnoughMemory) --left;
    if (void* const memory = std::malloc(size); memory != nullptr) return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
