// Converts filters from protobuf messages to collection::Filter, and back.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/filters/filter.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Returns the filter of a message, and checks it (CheckFilter). INVALID_ARGUMENT names the place in the message, as in
// "all_of.filters[1].equals: ", and what is wrong. Does not check whether the fields exist and the values suit them:
// CanonicalFilter does that.
absl::StatusOr<collection::Filter> FilterOf(const v1::Filter& message);

// The functions below take requests with a filter: RerankRequest, and those of the Documents calls.

// Returns the filter of a request, whether it comes as a message or as text; nullopt for a request without one. Returns
// the INVALID_ARGUMENT of FilterOf or ParseFilter, about the field "filter" or "filter_text".
template <typename Request>
absl::StatusOr<std::optional<collection::Filter>> FilterOfRequest(const Request& request);

// Returns an error about the filter of a request as one about its field. Errors that are not INVALID_ARGUMENT stay.
template <typename Request>
absl::Status FilterError(const Request& request, const absl::Status& error);

// Removes the in_slots that narrow a filter: one that is the whole filter, or those that are members of an all_of (also
// of an all_of within an all_of). If an all_of loses members so that one is left, that member replaces it. Returns
// nullopt if nothing is left. For example, an all_of of a filter and an in_slots becomes the filter. FilterOf must
// accept `filter`.
std::optional<v1::Filter> WithoutSlots(const v1::Filter& filter);

// Returns the message of a filter that passed CheckFilter. FilterOf converts the message back to the same filter.
v1::Filter FilterMessageOf(const collection::Filter& filter);

}  // namespace maxsim::service
