// Checks the answers of Rerank, since a server may be wrong, reads them, and writes them as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

// Checks that the response holds one result and that its parallel arrays are equally long. Returns INTERNAL otherwise.
// So the functions below never read beyond an array.
absl::Status CheckResponse(const v1::RerankRequest& request, const v1::RerankResponse& response);

// Returns the number of documents in a result.
int NumHits(const v1::QueryResult& result);

// Returns the id of hit `i` as text, or "" if results have none.
std::string IdText(const v1::QueryResult& result, int i);

// Returns the ids of candidates that the server does not know, as text.
std::vector<std::string> MissingIds(const v1::QueryResult& result);

// Returns remarks about texts whose ends the server's encoder cut off: a sentence about the query, and one about
// documents, each only if it applies.
std::vector<std::string> TruncationRemarks(const v1::QueryResult& result);

// Returns a line that says what was scanned and scored, and whether the answer is proven.
std::string RefinementText(const v1::Refinement& refinement);

// Returns the rank of each result; the first result has rank offset + 1. All results of a group have the same rank.
std::vector<int64_t> RanksOf(int64_t offset, const v1::QueryResult& result);

// Returns why candidates could not be scored: the server has lost a device, or, at a router, groups do not answer. If
// the response names no groups, the text allows for both reasons: a router does not name its groups to tenants.
std::string WhyUnavailable(const v1::RerankResponse& response);

Json ToJson(const v1::RerankRequest& request, const v1::RerankResponse& response);

}  // namespace maxsim::ctl
