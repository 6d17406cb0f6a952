// Makes requests from random queries, for the unit and the service tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "maxsim/v1/rerank.pb.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

inline v1::TokenMatrix ToProto(const TokenMatrix& tokens) {
  v1::TokenMatrix matrix;
  matrix.set_dtype(static_cast<v1::DataType>(tokens.type()));
  matrix.set_num_tokens(static_cast<uint32_t>(tokens.num_tokens()));
  matrix.set_dim(static_cast<uint32_t>(tokens.dim()));
  matrix.set_data(tokens.data(),
                  static_cast<size_t>(tokens.num_tokens()) * static_cast<size_t>(tokens.dim()) * SizeOf(tokens.type()));
  return matrix;
}

inline void AddQuery(const RandomQuery& query, v1::RerankRequest* request) {
  v1::Query& added = *request->add_queries();
  *added.mutable_tokens() = ToProto(query.tokens);
  for (const float weight : query.weights) added.add_weights(weight);
}

inline v1::RerankRequest MakeRequest(const std::string& collection, const RandomQuery& query,
                                     const std::vector<std::string>& ids, uint32_t top_k) {
  v1::RerankRequest request;
  request.set_collection(collection);
  request.set_top_k(top_k);
  AddQuery(query, &request);
  for (const std::string& id : ids) request.mutable_candidates()->mutable_string_ids()->add_ids(id);
  return request;
}

// Overwrites element `idx` of an F32 matrix.
inline void SetElement(size_t idx, float value, v1::TokenMatrix* matrix) {
  std::memcpy(matrix->mutable_data()->data() + idx * sizeof(float), &value, sizeof(value));
}

}  // namespace maxsim::test
