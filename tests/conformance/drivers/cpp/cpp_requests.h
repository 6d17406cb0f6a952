// Converts arguments in the suite's JSON to messages (docs/internals/conformance.md). An invalid argument throws an
// exception of nlohmann::json, which ends the driver.
#pragma once

#include <string>

#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "nlohmann/json.hpp"

namespace maxsim::conformance {

using Json = nlohmann::json;

// These functions make the requests of `rerank` and `search` (one query), of `rerank_many`, and of `explain` (one id).
v1::RerankRequest MakeRerank(const Json& arguments);
v1::RerankRequest MakeRerankMany(const Json& arguments);
v1::RerankRequest MakeExplain(const Json& arguments);

v1::UpsertRequest MakeUpsert(const Json& arguments);
// Makes a delete request with ids or with a filter.
v1::DeleteRequest MakeDelete(const Json& arguments);
v1::GetRequest MakeGet(const Json& arguments);
// Makes a request for the first page.
v1::ScrollRequest MakeScroll(const Json& arguments);
v1::CountRequest MakeCount(const Json& arguments);
v1::FacetsRequest MakeFacets(const Json& arguments);

}  // namespace maxsim::conformance
