// What the server says about itself: GetInfo and the lists of collections.
#pragma once

#include <cstdint>

#include "kernels/maxsim.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/rpc/limits.h"
#include "server/store/collection_store.h"

namespace maxsim::rpc {

v1::CollectionInfo ToProto(const store::CollectionStatus& status);
v1::Limits ToProto(const RequestLimits& limits, uint64_t max_queue_work);

// Version, limits, the backend's device and every collection.
v1::GetInfoResponse BuildInfo(const Backend& backend, const store::CollectionStore& store, const RequestLimits& limits,
                              uint64_t max_queue_work);

}  // namespace maxsim::rpc
