#include "server/service/call/activity.h"

#include <utility>
#include <vector>

namespace maxsim::service {

ActivityTotals ReadActivity(const Metrics& metrics, const store::DeviceSet& devices,
                            const store::CollectionStore& store, uint64_t budget_bytes) {
  std::vector<uint64_t> collection_bytes(devices.size());
  for (const store::CollectionStatus& status : store.List()) {
    if (status.collection == nullptr) continue;
    for (const store::Collection::TierUsage& usage : status.collection->tier_usage()) {
      collection_bytes[usage.device] += devices.is_gpu() ? usage.device_bytes : usage.host_bytes;
    }
  }
  ActivityTotals totals;
  totals.metrics = metrics.Totals();
  for (size_t idx = 0; idx < devices.size(); ++idx) {
    const Backend& backend = devices.backend(idx);
    ActivityTotals::Device device;
    device.number = devices.number(idx);
    device.up = devices.alive(idx);
    device.kernel_seconds = metrics.KernelSeconds(device.number);
    device.memory_bytes = backend.info().memory_bytes;
    if (device.up) {
      if (const absl::StatusOr<size_t> free = backend.FreeBytes(); free.ok()) device.free_bytes = *free;
    }
    device.collection_bytes = collection_bytes[idx];
    device.budget_bytes = budget_bytes;
    device.backend = backend.info().name;
    device.name = backend.info().device;
    totals.devices.push_back(std::move(device));
  }
  return totals;
}

}  // namespace maxsim::service
