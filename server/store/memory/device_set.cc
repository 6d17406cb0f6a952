#include "server/store/memory/device_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "server/observability/log_event.h"

namespace maxsim::store {

DeviceSet::DeviceSet(std::vector<Member> members, OnDeviceLoss on_loss, int num_lanes)
    : members_(std::move(members)),
      on_loss_(on_loss),
      num_lanes_(num_lanes),
      scan_bytes_(members_.size()),
      alive_(members_.size()),
      lost_(members_.size()) {
  for (std::atomic<bool>& alive : alive_) alive.store(true, std::memory_order_relaxed);
}

uint64_t DeviceSet::ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const {
  return SaturatingMultiply(static_cast<uint64_t>(num_lanes_), backend(0).ScanBytesNeeded(shape, num_documents));
}

size_t DeviceSet::num_alive() const {
  return static_cast<size_t>(std::count_if(alive_.begin(), alive_.end(), [](const std::atomic<bool>& alive) {
    return alive.load(std::memory_order_acquire);
  }));
}

absl::Status DeviceSet::StatusOf(size_t device) const {
  if (alive(device)) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  return lost_[device];
}

void DeviceSet::MarkLost(size_t device, const absl::Status& reason) {
  size_t left = 0;
  {
    const MutexLock lock(&mutex_);
    if (!lost_[device].ok()) return;
    // If there is only one device, the message needs no number.
    lost_[device] = absl::UnavailableError(
        size() == 1 ? std::string(reason.message()) : absl::StrCat("device ", number(device), ": ", reason.message()));
    if (first_lost_.ok()) first_lost_ = lost_[device];
    alive_[device].store(false, std::memory_order_release);
    left = num_alive();
    if (on_loss_ == OnDeviceLoss::kExit || left == 0) ended_.store(true, std::memory_order_release);
  }
  log::Write(spdlog::level::critical, "device_lost",
             {{"device", number(device)},
              {"name", backend(device).info().device},
              {"devices_left", left},
              {"error", reason.ToString()}});
}

void DeviceSet::Poll() {
  for (size_t device = 0; device < size(); ++device) {
    if (!alive(device)) continue;
    if (const absl::Status health = backend(device).Health(); !health.ok()) MarkLost(device, health);
  }
}

absl::Status DeviceSet::Health() const {
  if (!ended_.load(std::memory_order_acquire)) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  return first_lost_;
}

}  // namespace maxsim::store
