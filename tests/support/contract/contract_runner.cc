#include "tests/support/contract/contract_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/quantize.h"
#include "kernels/rank_order.h"
#include "kernels/reference.h"
#include "tests/support/contract/backend_contract.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

constexpr double kRelativeError = 1e-5;

std::vector<Scored> Garbage() {
  return std::vector<Scored>(7, Scored{std::numeric_limits<float>::quiet_NaN(), 0xdeadbeef});
}

}  // namespace

std::vector<int64_t> BoundaryLengths() {
  if (kSanitized) return {1, 2, 15, 16, 17, 31, 33, 65, 129};
  return {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
}

ContractRunner::ContractRunner(Backend& backend) : backend_(backend) {
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  absl::StatusOr<std::unique_ptr<Executor>> executor = backend.CreateExecutor(options);
  if (!executor.ok()) {
    ADD_FAILURE() << executor.status();
    std::abort();  // without an executor, no case can run
  }
  executor_ = *std::move(executor);
}

const Documents& ContractRunner::Load(const RandomDocuments& documents) {
  documents_.reset();
  absl::StatusOr<std::unique_ptr<Documents>> loaded = backend_.Load(documents.view(), Tier::kDevice, nullptr);
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.status();
    std::abort();
  }
  documents_ = *std::move(loaded);
  return *documents_;
}

Results ContractRunner::TopK(absl::Span<const Query> queries) {
  Results results(queries.size(), Garbage());
  const absl::Status status = executor_->TopK(*documents_, queries, absl::MakeSpan(results), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return Results(queries.size());
  return results;
}

void ExpectMatchesReference(const RandomDocuments& documents, const Query& query, const std::vector<Scored>& results) {
  const std::vector<ReferenceScore> reference = ReferenceScores(documents.view(), query);
  const size_t expected_size = std::min(reference.size(), static_cast<size_t>(query.top_k));
  ASSERT_EQ(results.size(), expected_size);
  std::vector<bool> returned(reference.size(), false);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const auto [score, position] = results[rank];
    ASSERT_LT(position, reference.size()) << "rank " << rank;
    ASSERT_FALSE(returned[position]) << "position " << position << " twice";
    returned[position] = true;
    ASSERT_LE(std::fabs(score - reference[position].score), kRelativeError * reference[position].magnitude)
        << "position " << position << ": " << score << " instead of " << reference[position].score;
    if (rank > 0) {
      ASSERT_TRUE(RanksBefore(results[rank - 1], results[rank])) << "rank " << rank;
    }
  }
  if (results.empty()) return;
  for (size_t position = 0; position < reference.size(); ++position) {
    if (returned[position]) continue;
    const double slack =
        kRelativeError * (reference[position].magnitude + reference[results.back().position].magnitude);
    ASSERT_LE(reference[position].score, results.back().score + slack) << "position " << position << " left out";
  }
}

namespace {

// Returns, for each query token, the largest INT8 inner product with the tokens of a document.
std::vector<int32_t> IntegerMaxima(const RandomDocuments& documents, int64_t document, const std::vector<int8_t>& query,
                                   int32_t num_tokens) {
  const int32_t dim = documents.tokens.dim();
  std::vector<int32_t> maxima(num_tokens, std::numeric_limits<int32_t>::min());
  for (int64_t row = documents.offsets[document]; row < documents.offsets[document + 1]; ++row) {
    const auto* const elements = static_cast<const int8_t*>(documents.tokens.row(row));
    for (int32_t token = 0; token < num_tokens; ++token) {
      int32_t sum = 0;
      for (int32_t column = 0; column < dim; ++column) {
        sum += int32_t{elements[column]} * query[static_cast<size_t>(token) * dim + column];
      }
      maxima[token] = std::max(maxima[token], sum);
    }
  }
  return maxima;
}

// Returns the sum of the 32 terms of a query tile (32 query tokens), in the order that the contract prescribes.
float SumOfQueryTile(std::vector<float> terms) {
  for (size_t distance = 16; distance > 0; distance /= 2) {
    const std::vector<float> before = terms;
    for (size_t lane = 0; lane < terms.size(); ++lane) terms[lane] = before[lane] + before[lane ^ distance];
  }
  return terms[0];
}

}  // namespace

std::vector<float> QuantizedScores(const RandomDocuments& documents, const Query& query) {
  constexpr int32_t kTileTokens = 32;
  const int32_t dim = documents.tokens.dim();
  std::vector<int8_t> elements(static_cast<size_t>(query.num_tokens) * dim);
  std::vector<float> factors(query.num_tokens);
  QuantizeQuery(documents.rotation_seed, dim, static_cast<const float*>(query.tokens), elements.data(),
                absl::MakeSpan(factors));
  if (query.weights != nullptr) {
    for (int32_t token = 0; token < query.num_tokens; ++token) factors[token] *= query.weights[token];
  }
  const bool whole = query.ordinals == nullptr;
  const int64_t num_candidates = whole ? documents.num_documents() : query.num_candidates;
  std::vector<float> scores;
  for (int64_t position = 0; position < num_candidates; ++position) {
    const int64_t document = whole ? position : query.ordinals[position];
    const std::vector<int32_t> maxima = IntegerMaxima(documents, document, elements, query.num_tokens);
    std::vector<float> sums;
    for (int32_t first = 0; first < query.num_tokens; first += kTileTokens) {
      std::vector<float> terms(kTileTokens, 0.0f);
      for (int32_t token = first; token < std::min(first + kTileTokens, query.num_tokens); ++token) {
        terms[token - first] = static_cast<float>(maxima[token]) * factors[token];
      }
      sums.push_back(SumOfQueryTile(std::move(terms)) * documents.scales[document]);
    }
    float score = sums[0];
    for (size_t query_tile = 1; query_tile < sums.size(); ++query_tile) score += sums[query_tile];
    scores.push_back(score + 0.0f);  // -0 becomes +0
  }
  return scores;
}

void ExpectSameBits(const std::vector<Scored>& expected, const std::vector<Scored>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    ASSERT_EQ(expected[rank].position, actual[rank].position) << "rank " << rank;
    ASSERT_EQ(std::bit_cast<uint32_t>(expected[rank].score), std::bit_cast<uint32_t>(actual[rank].score))
        << "rank " << rank << ": " << expected[rank].score << " and " << actual[rank].score;
  }
}

std::vector<uint32_t> ScoreBits(const std::vector<Scored>& results) {
  std::vector<Scored> by_position = results;
  std::sort(by_position.begin(), by_position.end(),
            [](const Scored& a, const Scored& b) { return a.position < b.position; });
  std::vector<uint32_t> bits;
  for (const Scored& scored : by_position) bits.push_back(std::bit_cast<uint32_t>(scored.score));
  return bits;
}

std::vector<ContractCase> BackendContract() {
  std::vector<ContractCase> all;
  for (const std::vector<ContractCase>& part :
       {ScoreCases(), SelectionCases(), IndependenceCases(), CallCases(), AppendableCases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace maxsim::test
