// Converts filters from protobuf messages to collection::Filter, and back.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/filters/filter.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Converts a message to a filter, and checks the filter (CheckFilter). Returns INVALID_ARGUMENT with the place in the
// message, as in "all_of.filters[1].equals: ", and what is wrong there. Does not check whether the fields exist and the
// values suit them: CanonicalFilter does that.
absl::StatusOr<collection::Filter> FilterOf(const v1::Filter& message);

// The functions below take RerankRequest and requests of Documents calls.

// Returns the filter of a request, whether it is a message or a text; nullopt if the request has none. Returns the
// INVALID_ARGUMENT of FilterOf or ParseFilter, about the field "filter" or "filter_text".
template <typename Request>
absl::StatusOr<std::optional<collection::Filter>> FilterOfRequest(const Request& request);

// Puts the filter's field into INVALID_ARGUMENT. Keeps other errors.
template <typename Request>
absl::Status FilterError(const Request& request, const absl::Status& error);

// Returns the filter without its in_slots conditions, if the filter is one or if they are members of an all_of (also of
// an all_of within an all_of). An all_of with one remaining member is replaced by that member. Returns nullopt if
// nothing is left. For example, all_of(X, in_slots) becomes X. `filter` must be one that FilterOf accepts.
std::optional<v1::Filter> WithoutSlots(const v1::Filter& filter);

// Converts a filter that has passed CheckFilter to a message. FilterOf converts that message back to the same filter.
v1::Filter FilterMessageOf(const collection::Filter& filter);

}  // namespace maxsim::service
