// How much each device has to do, for choosing between copies of the same documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/types/span.h"

namespace maxsim::engine {

// Thread-safe. Work is in token pairs.
class DeviceLoad {
 public:
  explicit DeviceLoad(size_t num_devices) : devices_(num_devices) {}

  // Gives `work` to the one of `candidates` (indices, not empty) that has the least in flight; of equals to the one
  // that was given the least so far, so that idle devices take turns. Returns it. One step: of two batches that come
  // together, the second sees the first.
  uint32_t GiveToLeastBusy(absl::Span<const uint32_t> candidates, uint64_t work);
  void Give(uint32_t device, uint64_t work);
  // The work that was given is done, or was given up.
  void TakeBack(uint32_t device, uint64_t work);

  // A lane works on the device.
  void Enter(uint32_t device);
  void Leave(uint32_t device);
  int lanes_busy(size_t device) const;

 private:
  struct Device {
    uint64_t in_flight = 0;
    uint64_t given = 0;
    int lanes_busy = 0;
  };
  void GiveLocked(uint32_t device, uint64_t work);

  mutable std::mutex mutex_;
  std::vector<Device> devices_;  // guarded by mutex_
};

}  // namespace maxsim::engine
