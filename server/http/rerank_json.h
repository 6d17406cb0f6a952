// Converts /v1/rerank, in the shape that Cohere's and Jina's clients know, to and from the wire contract's messages.
// The functions are pure.
//
//   {"model": COLLECTION, "query": {"dtype": "f32", "shape": [n, d], "data": BASE64} | [[...], ...],
//    "documents": [ID, ...] | "*", "top_n": N, "return_documents": true, "query_weights": [...], "request_id": "..."}
//
//   {"id": REQUEST_ID, "model": COLLECTION, "generation": G,
//    "results": [{"index": I, "id": ID, "relevance_score": S, "document": {...}}, ...],
//    "missing": [ID, ...], "unavailable_documents": N (where a device is lost), "timings": {"queue_us": ..., "copy_us":
//    ..., "kernel_us": ..., "total_us": ...}}
//
// "index" counts in `documents` as it was sent; "*" is the whole collection, in its own order.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/limits.h"

namespace maxsim::http {

// INVALID_ARGUMENT naming the member of the body, its value and what is accepted; of several errors the one that comes
// first. Elements beyond `limits` end the reading; all else that the message can hold is left to the service to refuse.
// `stop` is asked every few milliseconds, and its error returned; null: never. Takes time in proportion to the body,
// and memory in proportion to the message.
absl::StatusOr<v1::RerankRequest> ParseRerankRequest(const std::string& body, const service::RequestLimits& limits,
                                                     const StopCheck& stop = nullptr);

// `collection` is as the request named it. `stop` is asked as ParseRerankRequest asks it.
absl::StatusOr<std::string> FormatRerankResponse(const std::string& collection, const v1::RerankResponse& response,
                                                 const StopCheck& stop);
std::string FormatRerankResponse(const std::string& collection, const v1::RerankResponse& response);

// Returns {"error": {"code": "INVALID_ARGUMENT", "message": "..."}}.
std::string FormatError(const absl::Status& status);

// Formats an error of RerankService: the field that its message names by the gRPC path is named as in the body.
std::string FormatServiceError(const absl::Status& status);

// Returns {"collections": [{...}, ...]}.
std::string FormatCollections(const std::vector<v1::CollectionInfo>& collections);

}  // namespace maxsim::http
