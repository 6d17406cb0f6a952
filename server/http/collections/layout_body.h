// Reads the body of the call that sets the layout of a collection.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "maxsim/v1/admin.pb.h"

namespace maxsim::http {

// Parses {"expected_revision": N, "owners": [{"group": TEXT, "slots": {"first_slot": N, "end_slot": N}}, ...]}, where
// all members are required. Does not set the name of the collection. INVALID_ARGUMENT names the member, its value and
// what is accepted. Refuses a list of more than kMaxSlotOwners + 1 owners. All other checks of the owners are
// SetLayout's.
absl::StatusOr<v1::SetLayoutRequest> ParseLayoutBody(const std::string& body);

}  // namespace maxsim::http
