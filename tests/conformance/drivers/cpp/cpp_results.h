// Turns answers and errors into the JSON of the conformance suite (docs/internals/conformance.md).
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
// Returns score, similarities as [query tokens][document tokens], and the query's tokens.
Json ExplanationJson(const v1::ExplainResponse& response);

Json WritesJson(const v1::UpsertResponse& response);
// Returns the outcome of each id or, for a delete with a filter, the numbers of documents.
Json DeletesJson(const v1::DeleteResponse& response, bool by_filter);
Json StoredJson(const v1::StoredDocument& document);
Json GetJson(const v1::GetResponse& response);
Json FacetsJson(const v1::FacetsResponse& response);
Json InfoJson(const v1::GetInfoResponse& response);

// Returns code, field, reason, limit, retry_after_ms and message, without those that the error does not have.
Json ErrorJson(const absl::Status& status);

}  // namespace maxsim::conformance
