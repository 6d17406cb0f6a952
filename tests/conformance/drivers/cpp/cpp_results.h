// Converts answers and errors to the JSON of the conformance suite (docs/internals/conformance.md).
#pragma once

#include "absl/status/status.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "nlohmann/json.hpp"

namespace maxsim::conformance {

using Json = nlohmann::json;

// Returns the ranking of the request's only query.
Json RankingJson(const v1::RerankResponse& response);
Json RankingsJson(const v1::RerankResponse& response);
// Returns the score, the similarities ([query tokens][document tokens]), and the tokens of the query.
Json ExplanationJson(const v1::ExplainResponse& response);

Json WritesJson(const v1::UpsertResponse& response);
// Returns the outcome for each id or, if the delete had a filter, how many documents were deleted, missing and stale.
Json DeletesJson(const v1::DeleteResponse& response, bool by_filter);
Json StoredJson(const v1::StoredDocument& document);
Json GetJson(const v1::GetResponse& response);
Json FacetsJson(const v1::FacetsResponse& response);
Json InfoJson(const v1::GetInfoResponse& response);

// Returns code, field, reason, limit, retry_after_ms and message. Leaves out those that the error does not have.
Json ErrorJson(const absl::Status& status);

}  // namespace maxsim::conformance
