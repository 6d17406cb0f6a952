// Writes the answers of the HTTP port, in the forms that clients of other services expect. The functions are pure.
//
//   {"id": REQUEST_ID, "model": MODEL, "generation": G, "sequence": N (of a live collection),
//    "results": [{"index": I, "id": ID, "relevance_score": S, "group": VALUE, "document": {...}, "alignment": {...}},
//    ...], "meta": {"api_version": {"version": "1"}, "billed_units": {"search_units": 1}, "tokens": {...}}, "missing":
//    [ID, ...], "unavailable_documents": N (if a device or a group of servers is lost), "unavailable_groups": [NAME,
//    ...] (from a router that has lost groups), "query_tokens": [TEXT, ...], "query_truncated": true (if the encoder
//    cut the query; the result of a document that it cut has "truncated"), "refinement": {...} (after a scan of codes),
//    "usage": {"prompt_tokens": N, "total_tokens": N}, "timings": {"encode_us": ..., "queue_us": ..., "copy_us": ...,
//    "kernel_us": ..., "total_us": ...}}
//
// "index" is the position in `documents` as sent; for "*", the position in the whole collection, in the collection's
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/http/rerank/rerank_path.h"

namespace maxsim::http {

enum class AnswerShape : uint8_t {
  kResults,   // an object with "results", as Cohere and Jina answer
  kData,      // an object with "data", as Voyage answers
  kList,      // only the list of results, as text-embeddings-inference answers
  kRankings,  // an object with "rankings", as NVIDIA NIM answers
};

// A document that the request carries, with the parts that the answer repeats.
struct CarriedDocument {
  std::string id = {};  // JSON; "" for none
  // The members below are empty unless the answer repeats the documents.
  std::string object = {};               // JSON as it was sent; "" for a text alone, and for tokens
  std::optional<std::string> text = {};  // null for tokens
};

// How an answer is written.
struct AnswerForm {
  std::string model;  // as the request named it
  RerankApi api = RerankApi::kV1;
  AnswerShape shape = AnswerShape::kResults;
  std::vector<CarriedDocument> carried = {};  // by position; empty if the documents are stored ones
  std::string text_path = {};                 // the path on which strings would have been texts; "" if they were
};

// `stop` (may be null) is called every few milliseconds; its error ends the work.
absl::StatusOr<std::string> FormatRerankResponse(const AnswerForm& form, const v1::RerankResponse& response,
                                                 const StopCheck& stop);
std::string FormatRerankResponse(const AnswerForm& form, const v1::RerankResponse& response);

// Appends a payload as it was stored, since parsing and rewriting it would lose digits of numbers. A payload that is
// not a JSON object becomes a string, and an empty one an empty object.
void AppendPayload(const std::string& payload, std::string& text);

// Returns {"error": {"code": "INVALID_ARGUMENT", "message": "...", "field": "top_n", "reason": "LIMIT_EXCEEDED",
// "limit": 1024, "limit_key": "limits.max_top_k"}, "message": "...", "detail": "..."}. The message appears three times
// because clients of different services show different members. "field" and the members after it are present only if
// the status has them.
std::string FormatError(const absl::Status& status);

// Returns an error of RerankApi in which the gRPC path of a field is replaced by the field's name in the body.
absl::Status NamedAsInRerankBody(const absl::Status& status);

// Formats an error of RerankApi, with NamedAsInRerankBody.
std::string FormatServiceError(const absl::Status& status);

// Returns one collection as the list of FormatCollections has it.
std::string FormatCollection(const v1::CollectionInfo& info);

// Returns {"encoder": {"model": ..., "dim": ...}, "collections": [{...}, ...]}; `encoder` may be null.
std::string FormatCollections(const std::vector<v1::CollectionInfo>& collections, const v1::EncoderInfo* encoder);

}  // namespace maxsim::http
