// What the server says about itself: GetInfo and the lists of collections.
#pragma once

#include <cstdint>

#include "maxsim/v1/rerank.pb.h"
#include "server/service/limits.h"
#include "server/store/collection_store.h"
#include "server/store/device_set.h"

namespace maxsim::service {

v1::CollectionInfo ToProto(const store::CollectionStatus& status, const store::DeviceSet& devices);
v1::Limits ToProto(const RequestLimits& limits, uint64_t max_queue_work);

// Version, limits, the devices and every collection.
v1::GetInfoResponse BuildInfo(const store::DeviceSet& devices, const store::CollectionStore& store,
                              const RequestLimits& limits, uint64_t max_queue_work);

}  // namespace maxsim::service
