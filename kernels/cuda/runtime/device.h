// One CUDA device as the backend, its executors and its documents share it: number, limits and health.
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

// Remembers the first error after which a device cannot answer any more. Thread-safe.
class DeviceHealth {
 public:
  // Passes `status` on; an UNAVAILABLE one is kept for Get, unless an earlier one is there.
  absl::Status Note(absl::Status status);

  // OK, or the first UNAVAILABLE status that was noted.
  absl::Status Get() const;

 private:
  mutable std::mutex mutex_;
  absl::Status first_lost_;
};

struct Device {
  int ordinal = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  size_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // of the L2 cache
  DeviceLimits limits;
  bool overlap = true;  // kernels round the scoring overlap: what PrepareSelect and PrepareAddPartials have left of it
  int64_t stream_block_bytes = 0;    // CudaOptions'
  int64_t document_cache_bytes = 0;  // the same
  std::unique_ptr<ThreadPool> readers;
  LinkProfile link;  // measured where there are blocks
  DeviceHealth health;
};

// Makes a device the calling thread's current one, and the one before current again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  // Whether the switch worked.
  const absl::Status& status() const { return status_; }

 private:
  int previous_ = -1;  // -1: nothing to restore
  absl::Status status_;
};

}  // namespace maxsim::cuda
