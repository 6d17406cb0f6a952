// Documents and queries for tests of codes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/codes/encode.h"
#include "kernels/codes/query_codes.h"
#include "kernels/maxsim.h"
#include "kernels/reference.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

inline constexpr uint64_t kCodeSeed = 20261128;

// Returns the values of all rows, one after the other.
inline std::vector<float> RowsOf(const TokenMatrix& matrix) {
  std::vector<float> rows;
  for (int64_t token = 0; token < matrix.num_tokens(); ++token) {
    const std::vector<float> row = matrix.Row(token);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// Returns the shape of codes of these documents.
inline CodeShape ShapeFor(const DocumentsView& documents, bool factors) {
  return CodeShapeOf(documents, kCodeSeed, factors);
}

// Encodes documents, which must be valid.
inline EncodedDocuments Encoded(const DocumentsView& documents, bool factors) {
  return *EncodedDocuments::Encode(ShapeFor(documents, factors), documents);
}

// Encodes a query, which must be valid.
inline QueryCodes EncodedQuery(const CodeShape& shape, int planes, const RandomQuery& query) {
  return *EncodeQuery(shape, planes, RowsOf(query.tokens), query.weights);
}

// Multiplies each token of F32, F16 or BF16 documents with a length between 1 and `spread`.
inline void SpreadNorms(uint64_t seed, float spread, RandomDocuments* documents) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> length(1, spread);
  for (int64_t token = 0; token < documents->tokens.num_tokens(); ++token) {
    std::vector<float> row = documents->tokens.Row(token);
    const float factor = length(generator);
    for (float& value : row) value *= factor;
    documents->tokens.SetRow(token, row);
  }
}

// Returns the exact scores of all documents, in FP64.
inline std::vector<double> ExactScores(const DocumentsView& documents, const RandomQuery& query) {
  std::vector<double> scores;
  for (const ReferenceScore& score : ReferenceScores(documents, query.view(1))) scores.push_back(score.score);
  return scores;
}

}  // namespace maxsim::test
