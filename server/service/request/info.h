// Makes the answers of GetInfo, and the lists of collections.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "collection/encoder_identity.h"
#include "collection/field.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/limits.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"

namespace maxsim::service {

v1::CollectionInfo ToProto(const store::CollectionStatus& status, const store::DeviceSet& devices);
// Returns nullopt if `kind` is unspecified or unknown.
std::optional<collection::FieldKind> KindOf(v1::FieldKind kind);
v1::LiveInfo ToProto(const store::LiveState& state);
v1::EncoderInfo ToProto(const collection::EncoderIdentity& encoder);
v1::Limits ToProto(const RequestLimits& limits, uint64_t max_queue_work);

// `encoder` may be null. The other parts are always in the message.
v1::GetInfoResponse BuildInfo(const store::DeviceSet& devices, const store::CollectionStore& store,
                              const RequestLimits& limits, uint64_t max_queue_work,
                              std::unique_ptr<v1::EncoderInfo> encoder);

}  // namespace maxsim::service
