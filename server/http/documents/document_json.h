// Writes the answers to calls that write and read documents. The functions are pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"

namespace maxsim::http {

// Return {"results": [{"outcome": "applied", "sequence": N}, ...], "sequence": N}. For an upsert, add "usage":
// {"total_tokens": N}, the number of token vectors that the encoder made.
// For a delete with a filter, return {"num_deleted": N, "num_missing": N, "num_stale": N, "has_more": BOOL, "sequence":
// N}.
std::string FormatWrites(const v1::UpsertResponse& response);
std::string FormatWrites(const v1::DeleteResponse& response);

// Returns {"documents": [{"id": ID, "num_tokens": N, "payload": {...}, "version": N, "sequence": N, "tokens": MATRIX,
// "scale": S}, ...], "missing": [ID, ...], "generation": N, "sequence": N}. `stop` (may be null) is called every few
// milliseconds; its error ends the work.
absl::StatusOr<std::string> FormatDocuments(const v1::GetResponse& response, const StopCheck& stop = nullptr);

// Returns {"documents": [as in FormatDocuments], "has_more": BOOL, "generation": N, "sequence": N}.
absl::StatusOr<std::string> FormatPage(const v1::ScrollResponse& response, const StopCheck& stop = nullptr);

// Returns the only document of the response, with the collection's generation.
std::string FormatDocument(const v1::GetResponse& response);

// Returns {"count": N, "generation": N, "sequence": N}.
std::string FormatCount(const v1::CountResponse& response);

// Returns {"values": [{"value": TEXT, "count": N}, ...], "num_values": N, "num_documents": N, "generation": N,
// "sequence": N}.
std::string FormatFacets(const v1::FacetsResponse& response);

// Formats an error of DocumentService. If the error names a field by its gRPC path, replaces the path by the field's
// name in the HTTP body.
std::string FormatDocumentError(const absl::Status& status);

}  // namespace maxsim::http
