// Says which texts of a request the encoder cut, and marks their results.
#pragma once

#include <memory>
#include <vector>

#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// The texts that the encoder cut, because they are longer than its model reads.
struct TruncatedTexts {
  using Documents = std::shared_ptr<const std::vector<bool>>;  // [documents] of an inline list; null: none was cut
  struct Query {
    bool text = false;    // the query's own text was cut
    Documents documents;  // of the list that the query is scored against
  };
  std::vector<Query> queries;  // [queries]
  Documents documents;         // of the list that all queries without one of their own share
};

// Marks the results of texts that were cut. `response` answers the request that had the texts.
void MarkTruncated(const TruncatedTexts& truncated, v1::RerankResponse& response);

}  // namespace maxsim::service
