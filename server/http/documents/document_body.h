// Reads the bodies of calls that write and read documents.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/limits.h"

namespace maxsim::http {

// Parses {"documents": [{"id": ID, "tokens": MATRIX or "text": TEXT, "payload": {...}, "version": N}, ...]}, where a
// matrix is as in the body of a rerank call. A payload is kept as it was sent. INVALID_ARGUMENT names the member, its
// value and what is accepted. `stop` (may be null) is called every few milliseconds; its error ends the parsing. Takes
// time in proportion to the body, and memory in proportion to the result.
absl::StatusOr<v1::UpsertRequest> ParseUpsertBody(const std::string& body, const service::RequestLimits& limits,
                                                  const StopCheck& stop = nullptr);

// Parses {"ids": [ID, ...], "version": N}, where ids are all texts or all 64-bit integers, or
// {"filter": TEXT or {...}, "version": N, "min_sequence": N}.
absl::StatusOr<v1::DeleteRequest> ParseDeleteBody(const std::string& body, const StopCheck& stop = nullptr);

// Parses {"ids": [ID, ...], "return_tokens": true, "min_sequence": N}.
absl::StatusOr<v1::GetRequest> ParseGetBody(const std::string& body, const StopCheck& stop = nullptr);

}  // namespace maxsim::http
