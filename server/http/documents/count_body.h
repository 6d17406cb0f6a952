// Reads the bodies of calls that count or list documents.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"

namespace maxsim::http {

// Parses {"collection": NAME, "filter": TEXT or {...}, "min_sequence": N}. INVALID_ARGUMENT names the member, its value
// and what is accepted. `stop` (may be null) is called every few milliseconds; its error ends the parsing.
absl::StatusOr<v1::CountRequest> ParseCountBody(const std::string& body, const StopCheck& stop = nullptr);

// Parses {"collection": NAME, "field": NAME, "limit": N, "filter": TEXT or {...}, "min_sequence": N}.
absl::StatusOr<v1::FacetsRequest> ParseFacetsBody(const std::string& body, const StopCheck& stop = nullptr);

// Parses {"filter": TEXT or {...}, "after": ID, "limit": N, "return_payloads": BOOL, "return_tokens": BOOL,
// "min_sequence": N}, where every member may be left out.
absl::StatusOr<v1::ScrollRequest> ParseScrollBody(const std::string& body, const StopCheck& stop = nullptr);

}  // namespace maxsim::http
