// Reads the body of a rerank call into a RerankRequest.
//
//   {"model": COLLECTION, "query": TEXT | MATRIX, "documents": [DOCUMENT, ...] | "*", "top_n": N,
//    "return_documents": true, "return_alignments": true, "payload_fields": [NAME, ...], "normalize": true,
//    "query_weights": [...], "offset": N, "min_score": S, "group_by": FIELD, "group_size": N,
//    "filter": TEXT | {...}, "min_sequence": N, "request_id": "...",
//    "refinement": {"documents": N, "budget": N, "require_proof": true}}
//
// A MATRIX is {"dtype": "f32"|"f16"|"bf16", "shape": [tokens, dim], "data": BASE64} or [[...], ...]. A DOCUMENT is the
// id of a stored document (a text or an integer), the document's text (on paths where strings are texts, RerankPath),
// or an object: {"id": ID}, {"text": TEXT} or {"tokens": MATRIX}. An object with a text or tokens may have any other
// members. Clients of other services may use those services' names for members; some of these are ignored
// (rerank_members.h). A member that is null counts as absent.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/rerank/rerank_path.h"
#include "server/service/call/limits.h"

namespace maxsim::http {

struct RerankBody {
  v1::RerankRequest request;  // `collection` is the body's "model"
  AnswerForm form;            // complete but for its model
};

// Parses a body. Returns INVALID_ARGUMENT for the first error, naming the member of the body, its value and what is
// accepted. Returns the error as soon as the body exceeds `limits`. The service checks everything else. `stop` (may be
// null) is called every few milliseconds; its error ends the parsing. Takes time in proportion to the body, and memory
// in proportion to the result.
absl::StatusOr<RerankBody> ParseRerankBody(const std::string& body, const RerankPath& path,
                                           const service::RequestLimits& limits, const StopCheck& stop = nullptr);

}  // namespace maxsim::http
