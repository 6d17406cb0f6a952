// A list that one thread appends to while other threads read its earlier elements.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace maxsim::store {

// Elements do not move. A reader may access an element if its index is below a value of size() that the reader has
// read, or that the appending thread has passed to it.
template <typename T>
class AppendOnlyList {
 public:
  AppendOnlyList() = default;
  ~AppendOnlyList() {
    for (std::atomic<T*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }
  AppendOnlyList(const AppendOnlyList&) = delete;
  AppendOnlyList& operator=(const AppendOnlyList&) = delete;

  // Appends an element. Only for the appending thread. The reference stays valid.
  T& Append(T value) {
    Reserve();
    const size_t idx = size_.load(std::memory_order_relaxed);
    const auto [chunk, offset] = Locate(idx);
    T* const elements = chunks_[chunk].load(std::memory_order_relaxed);
    elements[offset] = std::move(value);
    size_.store(idx + 1, std::memory_order_release);
    return elements[offset];
  }

  // Allocates the memory that the next Append needs, so that this Append cannot run out of memory. Only for the
  // appending thread.
  void Reserve() {
    const auto [chunk, offset] = Locate(size_.load(std::memory_order_relaxed));
    if (chunks_[chunk].load(std::memory_order_relaxed) != nullptr) return;
    chunks_[chunk].store(new T[kFirstChunk << chunk], std::memory_order_release);
  }

  size_t size() const { return size_.load(std::memory_order_acquire); }
  const T& operator[](size_t idx) const {
    const auto [chunk, offset] = Locate(idx);
    return chunks_[chunk].load(std::memory_order_acquire)[offset];
  }
  // Only for the appending thread.
  T& at(size_t idx) {
    const auto [chunk, offset] = Locate(idx);
    return chunks_[chunk].load(std::memory_order_relaxed)[offset];
  }

 private:
  static constexpr size_t kFirstChunk = 64;  // elements; each chunk has twice as many as the one before
  static constexpr size_t kNumChunks = 40;

  static std::pair<size_t, size_t> Locate(size_t idx) {
    const auto chunk = static_cast<size_t>(std::bit_width((idx / kFirstChunk + 1) / 2));
    return {chunk, idx - kFirstChunk * ((size_t{1} << chunk) - 1)};
  }

  std::array<std::atomic<T*>, kNumChunks> chunks_{};
  std::atomic<size_t> size_{0};
};

}  // namespace maxsim::store
