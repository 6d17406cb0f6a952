// Converts the body of /v1/explain to a request of the service, and the service's answer to JSON. The functions are
// pure.
//
//   {"model": COLLECTION, "query": as in /v1/rerank, "id": ID, "query_weights": [...], "request_id": "..."}
//
//   {"id": ID, "model": COLLECTION, "generation": G, "score": S, "query_tokens": ["...", ...],
//    "query_truncated": true (if the encoder cut the query), "document_tokens": ["...", ...],
//    "similarities": [[...], ...]}
//
// "similarities" has a row for each token of the query and a column for each of the document. Each list of tokens is
// present only if the tokens' texts are known.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/limits.h"

namespace maxsim::http {

// The maximum size of a body, which holds one query. Parsing a body takes up to 100 times its size in memory.
inline constexpr size_t kMaxExplainBodyBytes = size_t{1} << 20;

// Returns a request with one query and one candidate. Reads all members except "id" with ParseRerankBody, and returns
// its errors too.
absl::StatusOr<v1::RerankRequest> ParseExplainRequest(const std::string& body, const service::RequestLimits& limits,
                                                      const StopCheck& stop = nullptr);

// Formats the explanation of a document's score. `collection` and `document`, which has one id, are those of the
// request.
std::string FormatExplanation(const std::string& collection, const v1::Candidates& document,
                              const v1::ExplainResponse& explanation);

// Formats an error of ExplainApi, with its field named as in the body.
std::string FormatExplainError(const absl::Status& status);

}  // namespace maxsim::http
