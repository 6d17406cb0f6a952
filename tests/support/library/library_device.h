// The device on which a test of the C library's operators runs. Tests for the CPU and for GPUs share their expectations
// through this class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/library/include/maxsim/maxsim.h"

namespace maxsim::test {

// Memory for calls of the library. Buffers live as long as the device object.
class LibraryDevice {
 public:
  virtual ~LibraryDevice() = default;
  virtual int32_t device() const = 0;  // MAXSIM_CPU or MAXSIM_CUDA
  virtual void* stream() const = 0;

  // Returns memory with all bytes 0xff, which are NaN as floats and out of range as indices. It is aligned to 256
  // bytes.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Write(void* target, const void* source, size_t bytes) = 0;
  // Reads what the calls so far have written.
  virtual void Read(void* target, const void* source, size_t bytes) = 0;

  template <typename T>
  T* Upload(const std::vector<T>& values) {
    T* const memory = static_cast<T*>(Allocate(values.size() * sizeof(T)));
    if (!values.empty()) Write(memory, values.data(), values.size() * sizeof(T));
    return memory;
  }
  template <typename T>
  std::vector<T> Download(const void* memory, size_t count) {
    std::vector<T> values(count);
    if (count > 0) Read(values.data(), memory, count * sizeof(T));
    return values;
  }
};

// Host memory.
class HostLibraryDevice : public LibraryDevice {
 public:
  int32_t device() const override { return MAXSIM_CPU; }
  void* stream() const override { return nullptr; }
  void* Allocate(size_t bytes) override {
    // Each buffer has exactly the requested size, so that AddressSanitizer reports accesses beyond it.
    buffers_.push_back(std::make_unique<char[]>(bytes));
    std::memset(buffers_.back().get(), 0xff, bytes);
    return buffers_.back().get();
  }
  void Write(void* target, const void* source, size_t bytes) override { std::memcpy(target, source, bytes); }
  void Read(void* target, const void* source, size_t bytes) override { std::memcpy(target, source, bytes); }

 private:
  std::vector<std::unique_ptr<char[]>> buffers_;
};

// Random values: their elements in a type of the library, and the same values, after rounding, in FP64.
struct LibraryValues {
  std::vector<char> elements;
  std::vector<double> values;
};

// Returns `count` values. With `ties` they are small integers, so that all sums are exact and many results are equal.
// Otherwise they are normally distributed.
LibraryValues RandomLibraryValues(int32_t type, size_t count, bool ties, uint64_t seed);

// Sets to NaN all elements of `values`, [num_sets, max_rows, dim], whose row number is not below the length of their
// set.
void PoisonPadding(int32_t type, size_t dim, int64_t max_rows, const std::vector<int32_t>& lengths,
                   LibraryValues* values);

// Returns elements of a type as doubles.
std::vector<double> WidenLibraryValues(int32_t type, const std::vector<char>& elements);

// Returns `count` random lengths from 0 to max_length. The first is max_length, the second is 0.
std::vector<int32_t> RandomLengths(size_t count, int64_t max_length, uint64_t seed);

// Returns the largest relative error of rounding a value to a type.
double RoundingOf(int32_t type);

}  // namespace maxsim::test
