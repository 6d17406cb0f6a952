// Reads the bodies of calls that change collections.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "maxsim/v1/admin.pb.h"

namespace maxsim::http {

// Parse the body of a call. The bodies are, in the order of the functions:
//
// * {"dim": N, "storage": "f16", "id_type": "string", "path": TEXT, "residency": TEXT, "replicate": BOOL, "encoder":
//   {"model": TEXT, "fingerprint": TEXT, "dim": N}, "code_planes": N, "code_factors": BOOL, "fields":
//   "NAME:KIND=PATH,..."}, where only `dim` is required;
// * {"path": TEXT};
// * {} or nothing.
//
// The functions do not set the name of the collection in the request. INVALID_ARGUMENT names the member, its value and
// what is accepted.
absl::StatusOr<v1::CreateCollectionRequest> ParseCreateBody(const std::string& body);
absl::StatusOr<v1::SnapshotCollectionRequest> ParseSnapshotBody(const std::string& body);
absl::StatusOr<v1::CompactCollectionRequest> ParseCompactBody(const std::string& body);

}  // namespace maxsim::http
