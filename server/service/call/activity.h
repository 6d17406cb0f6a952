// Reads the totals of the metrics, and the state and memory of the devices.
#pragma once

#include <cstdint>

#include "server/observability/activity.h"
#include "server/observability/metrics.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"

namespace maxsim::service {

// Returns the totals. `budget_bytes` is memory.budget. Asks the driver for free memory, so only the server's monitor
// thread calls it, and no thread that answers requests.
ActivityTotals ReadActivity(const Metrics& metrics, const store::DeviceSet& devices,
                            const store::CollectionStore& store, uint64_t budget_bytes);

}  // namespace maxsim::service
