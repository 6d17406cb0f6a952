// Makes messages from the arguments of the conformance suite (docs/internals/conformance.md). The arguments come from
// the suite's own files. A wrong one throws an exception of nlohmann::json, which ends the driver.
#pragma once

#include <string>

#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "nlohmann/json.hpp"

namespace maxsim::conformance {

using Json = nlohmann::json;

// Make the requests of `rerank` and `search`, which have one query; of `rerank_many`; and of `explain`, which has one
// id.
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
