#include "tests/support/library/library_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace maxsim::test {
namespace {

// The allowed difference of an FP32 sum from FP64, relative to the sum of the magnitudes of its terms.
constexpr double kTolerance = 1e-5;

void ExpectNear(double value, double expected, double allowed, const std::string& what) {
  EXPECT_LE(std::fabs(value - expected), allowed) << what << ": " << value << ", and not " << expected;
}

}  // namespace

double SimilarityOf(const LibraryCase& library_case, int64_t pair, int64_t query_token, int64_t document_token) {
  const int64_t query = library_case.QueryOf(pair);
  const int64_t document = library_case.DocumentOf(pair);
  const int64_t query_row = library_case.queries.Begin(query) + query_token;
  const int64_t document_row = library_case.documents.Begin(document) + document_token;
  double sum = 0;
  for (int32_t column = 0; column < library_case.shape.dim; ++column) {
    sum += library_case.queries.Value(query_row, column) * library_case.documents.Value(document_row, column);
  }
  return sum * library_case.queries.Scale(query, query_row) * library_case.documents.Scale(document, document_row);
}

LibraryScores ReferenceScoresOf(const LibraryCase& library_case) {
  const LibraryTokens& queries = library_case.queries;
  const LibraryTokens& documents = library_case.documents;
  const int64_t max_tokens = queries.tokens.max_tokens;
  LibraryScores result;
  result.argmax.assign(library_case.num_pairs() * max_tokens, -1);
  for (int64_t pair = 0; pair < library_case.num_pairs(); ++pair) {
    const int64_t query = library_case.QueryOf(pair);
    const int64_t document = library_case.DocumentOf(pair);
    double score = 0;
    double magnitude = 0;
    bool any_query_token = false;
    bool any_document_token = false;
    for (int64_t i = 0; i < queries.Length(query); ++i) {
      const int64_t query_row = queries.Begin(query) + i;
      if (!queries.Counts(query_row)) continue;
      any_query_token = true;
      double best = -std::numeric_limits<double>::infinity();
      double best_magnitude = 0;
      for (int64_t j = 0; j < documents.Length(document); ++j) {
        const int64_t document_row = documents.Begin(document) + j;
        if (!documents.Counts(document_row)) continue;
        any_document_token = true;
        const double similarity = SimilarityOf(library_case, pair, i, j);
        double sum = 0;
        for (int32_t column = 0; column < library_case.shape.dim; ++column) {
          sum += std::fabs(queries.Value(query_row, column) * documents.Value(document_row, column));
        }
        best_magnitude =
            std::max(best_magnitude, sum * queries.Scale(query, query_row) * documents.Scale(document, document_row));
        if (similarity > best) {
          best = similarity;
          result.argmax[pair * max_tokens + i] = static_cast<int32_t>(j);
        }
      }
      const double weight = library_case.weights.empty() ? 1.0 : library_case.weights[query_row];
      score += weight * best;
      magnitude += std::fabs(weight) * best_magnitude;
    }
    if (!any_query_token) {
      score = 0;
    } else if (!any_document_token) {
      score = library_case.call.empty_score;
    }
    result.scores.push_back(score);
    result.magnitudes.push_back(magnitude);
  }
  return result;
}

LibraryGradients ReferenceGradientsOf(const LibraryCase& library_case, const std::vector<int32_t>& argmax) {
  const LibraryTokens& queries = library_case.queries;
  const LibraryTokens& documents = library_case.documents;
  const int32_t dim = library_case.shape.dim;
  LibraryGradients result;
  result.queries.resize(queries.tokens.num_rows * dim);
  result.query_magnitudes = result.queries;
  result.documents.resize(documents.tokens.num_rows * dim);
  result.document_magnitudes = result.documents;
  result.weights.resize(queries.tokens.num_rows);
  result.weight_magnitudes = result.weights;
  for (int64_t pair = 0; pair < library_case.num_pairs(); ++pair) {
    const int64_t query = library_case.QueryOf(pair);
    for (int64_t i = 0; i < queries.Length(query); ++i) {
      const int32_t match = argmax[pair * queries.tokens.max_tokens + i];
      if (match < 0) continue;
      const int64_t query_row = queries.Begin(query) + i;
      const int64_t document_row = documents.Begin(library_case.DocumentOf(pair)) + match;
      const double gradient = library_case.score_gradients[pair];
      const double weight = library_case.weights.empty() ? 1.0 : library_case.weights[query_row];
      for (int32_t column = 0; column < dim; ++column) {
        const double query_value = queries.Value(query_row, column);
        const double document_value = documents.Value(document_row, column);
        const auto add = [](double term, size_t idx, std::vector<double>* sums, std::vector<double>* magnitudes) {
          (*sums)[idx] += term;
          (*magnitudes)[idx] += std::fabs(term);
        };
        add(gradient * weight * document_value, query_row * dim + column, &result.queries, &result.query_magnitudes);
        add(gradient * weight * query_value, document_row * dim + column, &result.documents,
            &result.document_magnitudes);
        add(gradient * query_value * document_value, query_row, &result.weights, &result.weight_magnitudes);
      }
    }
  }
  return result;
}

LibraryGradientMemory::LibraryGradientMemory(const LibraryCase& library_case)
    : queries(library_case.queries.rows.size(), static_cast<char>(0xff)),
      documents(library_case.documents.rows.size(), static_cast<char>(0xff)),
      weights(library_case.queries.tokens.num_rows, std::numeric_limits<float>::quiet_NaN()) {}

void ExpectScores(const LibraryCase& library_case, const LibraryScores& expected, const std::vector<float>& scores,
                  const std::vector<int32_t>& argmax) {
  const int64_t max_tokens = library_case.queries.tokens.max_tokens;
  ASSERT_EQ(scores.size(), expected.scores.size());
  for (size_t pair = 0; pair < scores.size(); ++pair) {
    ExpectNear(scores[pair], expected.scores[pair], kTolerance * expected.magnitudes[pair],
               "score of pair " + std::to_string(pair));
  }
  ASSERT_EQ(argmax.size(), expected.argmax.size());
  for (size_t idx = 0; idx < argmax.size(); ++idx) {
    if (argmax[idx] == expected.argmax[idx]) continue;
    const std::string what = "match of pair " + std::to_string(idx / max_tokens) + ", query token " +
                             std::to_string(idx % max_tokens) + " is " + std::to_string(argmax[idx]) + ", and not " +
                             std::to_string(expected.argmax[idx]);
    // With ties, all sums are exact, so the argmax must be the first of equally similar tokens. Otherwise rounding may
    // choose another token.
    ASSERT_FALSE(library_case.shape.ties) << what;
    ASSERT_GE(argmax[idx], 0) << what;
    ASSERT_GE(expected.argmax[idx], 0) << what;
    const auto pair = static_cast<int64_t>(idx) / max_tokens;
    const auto token = static_cast<int64_t>(idx) % max_tokens;
    ExpectNear(SimilarityOf(library_case, pair, token, argmax[idx]),
               SimilarityOf(library_case, pair, token, expected.argmax[idx]),
               kTolerance * expected.magnitudes[pair] + 1e-4, what);
  }
}

void ExpectGradients(const LibraryCase& library_case, const std::vector<int32_t>& argmax,
                     const LibraryGradientMemory& gradients) {
  const LibraryGradients expected = ReferenceGradientsOf(library_case, argmax);
  const int32_t type = library_case.shape.type;
  const double rounding = type == MAXSIM_F32 ? 0 : type == MAXSIM_F16 ? 0x1p-11 : 0x1p-8;
  const auto compare = [&](const std::vector<char>& values, const std::vector<double>& wanted,
                           const std::vector<double>& magnitudes, const char* name) {
    for (size_t idx = 0; idx < wanted.size(); ++idx) {
      ExpectNear(ElementOf(type, values, static_cast<int64_t>(idx)), wanted[idx],
                 kTolerance * magnitudes[idx] + rounding * std::fabs(wanted[idx]) + 1e-7,
                 std::string(name) + "[" + std::to_string(idx) + "]");
    }
  };
  compare(gradients.queries, expected.queries, expected.query_magnitudes, "query gradient");
  compare(gradients.documents, expected.documents, expected.document_magnitudes, "document gradient");
  for (size_t idx = 0; idx < expected.weights.size(); ++idx) {
    ExpectNear(gradients.weights[idx], expected.weights[idx], kTolerance * expected.weight_magnitudes[idx],
               "weight gradient " + std::to_string(idx));
  }
}

}  // namespace maxsim::test
