// Reads the server's activity: the metrics' totals, and the devices with their memory.
#pragma once

#include <cstdint>

#include "server/observability/activity.h"
#include "server/observability/metrics.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"

namespace maxsim::service {

// `budget_bytes` is memory.budget. It asks the driver for free memory: for the server's monitor, not for requests.
ActivityTotals ReadActivity(const Metrics& metrics, const store::DeviceSet& devices,
                            const store::CollectionStore& store, uint64_t budget_bytes);

}  // namespace maxsim::service
