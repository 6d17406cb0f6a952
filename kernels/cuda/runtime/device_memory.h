// Device memory and pinned host memory, owned.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace maxsim::cuda {

// Device memory of the device that was current at Allocate. Move-only. Aligned to 256 bytes.
class DeviceBuffer {
 public:
  // `purpose` names the memory in the error: RESOURCE_EXHAUSTED with the bytes wanted and the bytes free. Zero bytes
  // are allowed and give a null pointer.
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

// Page-locked host memory that the device copies from and to at full speed. Move-only.
class PinnedBuffer {
 public:
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
