// The encoder's report about texts besides vectors, for the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// A text is truncated if it is longer than the encoder's model can read.
struct TextFacts {
  struct Query {
    std::vector<std::string> pieces;  // the text of each token of the query; empty if the encoder does not report them
    bool is_truncated = false;        // the query's own text
    // For each document of the inline list that the query is scored against, whether its text is truncated. Null if
    // none is.
    std::shared_ptr<const std::vector<bool>> truncated_documents;
  };
  uint64_t num_tokens = 0;     // token vectors that the encoder made
  std::vector<Query> queries;  // [queries]; empty if the request had no texts
};

// Adds the facts to `response`, which answers the request that had the texts.
void AddTextFacts(const TextFacts& facts, bool return_alignments, v1::RerankResponse& response);

}  // namespace maxsim::service
