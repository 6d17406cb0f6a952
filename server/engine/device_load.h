// Tracks each device's work, so that a batch can choose between replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/mutex.h"

namespace maxsim::engine {

// The class is thread-safe. Work is in token pairs.
class DeviceLoad {
 public:
  explicit DeviceLoad(size_t num_devices) : devices_(num_devices) {}

  // Adds `work` to the device of `candidates` (indices, not empty) that has the least work in flight, and returns that
  // device. Among equals it chooses the device that has been assigned the least work so far, so that idle devices take
  // turns. Choosing and adding are one atomic step.
  uint32_t AssignToLeastBusy(absl::Span<const uint32_t> candidates, uint64_t work);
  void Add(uint32_t device, uint64_t work);
  // Subtracts work that was added, when it is done or abandoned.
  void Remove(uint32_t device, uint64_t work);

  // Record that a lane begins to work on the device, and that it has finished.
  void EnterLane(uint32_t device);
  void LeaveLane(uint32_t device);
  int lanes_busy(size_t device) const;

 private:
  struct Device {
    uint64_t in_flight = 0;
    uint64_t assigned = 0;
    int lanes_busy = 0;
  };
  void AddLocked(uint32_t device, uint64_t work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Device> devices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::engine
