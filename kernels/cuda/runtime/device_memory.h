// Owners of device memory and of pinned host memory.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace maxsim::cuda {

// Owns memory of the device that was current at Allocate, aligned to 256 bytes. Move-only.
class DeviceBuffer {
 public:
  // Allocates `bytes`. Zero bytes are allowed and give a null pointer. Returns RESOURCE_EXHAUSTED, with the bytes
  // wanted and the bytes free, if there is too little memory; `purpose` names the memory in the error.
  static absl::StatusOr<DeviceBuffer> Allocate(size_t bytes, absl::string_view purpose);

  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer();

  size_t bytes() const { return bytes_; }
  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  DeviceBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Owns page-locked host memory, which the device reads and writes itself and copies at full speed. Move-only.
class PinnedBuffer {
 public:
  // Allocates `bytes`, as DeviceBuffer::Allocate does.
  static absl::StatusOr<PinnedBuffer> Allocate(size_t bytes, absl::string_view purpose);

  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedBuffer();

  size_t bytes() const { return bytes_; }
  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  PinnedBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace maxsim::cuda
