// Replaces operator new, so that a test can make a thread's allocations fail after any number of them. Only one file of
// a program may include this header. Builds with a sanitizer leave such programs out, because sanitizers replace
// operator new too.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

namespace maxsim::test {

inline constexpr int64_t kEnoughMemory = std::numeric_limits<int64_t>::max();

// The number of allocations of this thread that still succeed. All later ones fail.
inline thread_local int64_t allocations_left = kEnoughMemory;

// While the object lives, this thread has memory for `count` allocations.
class MemoryEnds {
 public:
  explicit MemoryEnds(int64_t count) { allocations_left = count; }
  ~MemoryEnds() { allocations_left = kEnoughMemory; }
  MemoryEnds(const MemoryEnds&) = delete;
  MemoryEnds& operator=(const MemoryEnds&) = delete;
};

// Runs `work` with memory for 0, 1, 2, ... allocations until it succeeds. The only allowed failure is std::bad_alloc.
// Returns the number of failures.
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
