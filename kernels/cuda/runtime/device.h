// One CUDA device, as the backend, its executors and its documents share it: its number, limits and health.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/link_profile.h"
#include "kernels/plan/device_limits.h"
#include "kernels/thread_pool.h"

namespace maxsim::cuda {

// DeviceHealth remembers the first error that says that the device is lost. Thread-safe.
class DeviceHealth {
 public:
  // Returns `status`. If it is the first one that is UNAVAILABLE, keeps it for Get.
  absl::Status Note(absl::Status status);

  // Returns OK, or the first UNAVAILABLE status that was noted.
  absl::Status Get() const;

 private:
  mutable std::mutex mutex_;
  absl::Status first_lost_;
};

// Immutable once the backend has opened it, except for its health.
struct Device {
  int ordinal = 0;  // CUDA's number of the device
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  size_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // bytes of the L2 cache
  DeviceLimits limits;
  // Whether the kernels before and after scoring may start while the kernel before them still runs. PrepareSelect and
  // PrepareAddPartials set this to false if their kernels may not.
  bool overlap = true;
  int64_t stream_block_bytes = 0;       // CudaOptions::stream_block_bytes
  int64_t document_cache_bytes = 0;     // CudaOptions::document_cache_bytes
  std::unique_ptr<ThreadPool> readers;  // CudaOptions::reader_threads
  LinkProfile link;                     // measured where stream_block_bytes is not 0
  DeviceHealth health;
};

// CurrentDevice makes a device the calling thread's current one, and restores the previous one at the end of the
// scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  // Returns whether the switch worked.
  const absl::Status& status() const { return status_; }

 private:
  int previous_ = -1;  // the device to restore; -1: none
  absl::Status status_;
};

}  // namespace maxsim::cuda
