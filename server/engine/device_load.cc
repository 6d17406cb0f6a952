#include "server/engine/device_load.h"

#include <algorithm>
#include <tuple>

namespace maxsim::engine {

void DeviceLoad::AddLocked(uint32_t device, uint64_t work) {
  // The sums may wrap around. That only makes the choice of a device worse.
  devices_[device].in_flight += work;
  devices_[device].assigned += work;
}

uint32_t DeviceLoad::AssignToLeastBusy(absl::Span<const uint32_t> candidates, uint64_t work) {
  const MutexLock lock(&mutex_);
  const uint32_t chosen = *std::min_element(candidates.begin(), candidates.end(), [this](uint32_t a, uint32_t b) {
    mutex_.AssertHeld();
    return std::tie(devices_[a].in_flight, devices_[a].assigned) <
           std::tie(devices_[b].in_flight, devices_[b].assigned);
  });
  AddLocked(chosen, work);
  return chosen;
}

void DeviceLoad::Add(uint32_t device, uint64_t work) {
  const MutexLock lock(&mutex_);
  AddLocked(device, work);
}

void DeviceLoad::Remove(uint32_t device, uint64_t work) {
  const MutexLock lock(&mutex_);
  devices_[device].in_flight -= work;
}

void DeviceLoad::EnterLane(uint32_t device) {
  const MutexLock lock(&mutex_);
  ++devices_[device].lanes_busy;
}

void DeviceLoad::LeaveLane(uint32_t device) {
  const MutexLock lock(&mutex_);
  --devices_[device].lanes_busy;
}

int DeviceLoad::lanes_busy(size_t device) const {
  const MutexLock lock(&mutex_);
  return devices_[device].lanes_busy;
}

}  // namespace maxsim::engine
