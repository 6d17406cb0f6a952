// Filters of the wire contract -> filters of collections, and back.
#pragma once

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Returns the filter of a message, and checks it (CheckFilter). INVALID_ARGUMENT names the place in the message, as in
// "all_of.filters[1].equals: ", and what is wrong. Whether the fields exist and the values suit them is left to
// CanonicalFilter.
absl::StatusOr<collection::Filter> FilterOf(const v1::Filter& message);

// Returns the message of a filter that passed CheckFilter. FilterOf returns the filter again.
v1::Filter FilterMessageOf(const collection::Filter& filter);

}  // namespace maxsim::service
