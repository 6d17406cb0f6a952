// Reads the answers of a Rerank, checks them since a server may be wrong, and writes them as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

// Checks that the response holds one result and that its parallel arrays are equally long. INTERNAL otherwise: nothing
// that follows reads beyond an array.
absl::Status CheckResponse(const v1::RerankRequest& request, const v1::RerankResponse& response);

// Returns the number of documents in a result.
int NumHits(const v1::QueryResult& result);

// Returns the id of hit `i` as text, or "" if results have none.
std::string IdText(const v1::QueryResult& result, int i);

// Returns the ids of candidates that the server does not know, as text.
std::vector<std::string> MissingIds(const v1::QueryResult& result);

// Returns a sentence for the query's text and one for the documents' if the server's encoder cut the end of some.
std::vector<std::string> TruncationRemarks(const v1::QueryResult& result);

// Says in a line what was scanned and scored, and whether the answer is proven.
std::string RefinementText(const v1::Refinement& refinement);

// Returns the rank of each result after `offset` ranks. Those of a group have one rank.
std::vector<int64_t> RanksOf(int64_t offset, const v1::QueryResult& result);

Json ToJson(const v1::RerankRequest& request, const v1::RerankResponse& response);

}  // namespace maxsim::ctl
