// Compares and adds up what servers report about their parts of a collection. Pure: no network, no clock.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::cluster {

// Returns the report of a server about a collection, or null if it has reported nothing. `info` may be null; the result
// is a part of it.
const v1::CollectionInfo* ReportAbout(std::string_view name, const v1::GetInfoResponse* info);

// Returns the slots whose documents a server holds; all slots if its collection is no partition.
collection::SlotRange SlotsOf(const v1::CollectionInfo& info);

// Returns an error if two servers report different shapes of a collection (dimension, storage, type of ids, rotation,
// live or not), else OK.
absl::Status CheckSameShape(const v1::CollectionInfo& a, const v1::CollectionInfo& b, const std::string& name);

// Adds the figures of a group's part to those of the collection.
void AddUp(const v1::CollectionInfo& part, bool is_first, v1::CollectionInfo& sum);

}  // namespace maxsim::cluster
