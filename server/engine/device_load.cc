#include "server/engine/device_load.h"

#include <algorithm>
#include <tuple>

namespace maxsim::engine {

void DeviceLoad::GiveLocked(uint32_t device, uint64_t work) {
  // Sums of what clients ask for may wrap around: work counts wrongly then, and nothing else.
  devices_[device].in_flight += work;
  devices_[device].given += work;
}

uint32_t DeviceLoad::GiveToLeastBusy(absl::Span<const uint32_t> candidates, uint64_t work) {
  const std::lock_guard lock(mutex_);
  const uint32_t chosen = *std::min_element(candidates.begin(), candidates.end(), [this](uint32_t a, uint32_t b) {
    return std::tie(devices_[a].in_flight, devices_[a].given) < std::tie(devices_[b].in_flight, devices_[b].given);
  });
  GiveLocked(chosen, work);
  return chosen;
}

void DeviceLoad::Give(uint32_t device, uint64_t work) {
  const std::lock_guard lock(mutex_);
  GiveLocked(device, work);
}

void DeviceLoad::TakeBack(uint32_t device, uint64_t work) {
  const std::lock_guard lock(mutex_);
  devices_[device].in_flight -= work;
}

void DeviceLoad::Enter(uint32_t device) {
  const std::lock_guard lock(mutex_);
  ++devices_[device].lanes_busy;
}

void DeviceLoad::Leave(uint32_t device) {
  const std::lock_guard lock(mutex_);
  --devices_[device].lanes_busy;
}

int DeviceLoad::lanes_busy(size_t device) const {
  const std::lock_guard lock(mutex_);
  return devices_[device].lanes_busy;
}

}  // namespace maxsim::engine
