// Tests Align, Stage and Load, and arguments outside the limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/quantize.h"
#include "kernels/reference.h"
#include "tests/support/contract/backend_contract.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using ::testing::HasSubstr;

void ExpectInvalid(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// Returns the query's rows as the backend multiplies them: for I8 documents rotated and quantised, otherwise unchanged.
std::vector<std::vector<double>> QueryRows(const RandomDocuments& documents, const RandomQuery& query) {
  std::vector<std::vector<double>> rows;
  for (int64_t token = 0; token < query.tokens.num_tokens(); ++token) {
    const std::vector<float> values = query.tokens.Row(token);
    rows.emplace_back(values.begin(), values.end());
    if (documents.tokens.type() != ScalarType::kI8) continue;
    std::vector<int8_t> elements(values.size());
    float scale = 0;
    QuantizeQuery(documents.rotation_seed, query.tokens.dim(), values.data(), elements.data(),
                  absl::MakeSpan(&scale, 1));
    for (size_t column = 0; column < elements.size(); ++column) {
      rows.back()[column] = static_cast<double>(scale) * elements[column];
    }
  }
  return rows;
}

// Returns a document's row: decoded, or multiplied by the document's scale.
std::vector<double> DocumentRow(const RandomDocuments& documents, int64_t document, int64_t token) {
  if (IsResidual(documents.tokens.type())) {
    const DocumentsView view = documents.view();
    std::vector<double> row(static_cast<size_t>(view.dim));
    ResidualDecoder(view.type, view.dim, view.codebook)
        .DecodeRow(documents.tokens.row(documents.offsets[document] + token), row.data());
    return row;
  }
  const std::vector<float> values = documents.tokens.Row(documents.offsets[document] + token);
  std::vector<double> row(values.begin(), values.end());
  if (documents.scales.empty()) return row;
  for (double& value : row) value *= documents.scales[document];
  return row;
}

struct Product {
  double value = 0;
  double magnitude = 0;
};

Product InnerProduct(const std::vector<double>& a, const std::vector<double>& b) {
  Product product;
  for (size_t column = 0; column < a.size(); ++column) {
    const double term = a[column] * b[column];
    product.value += term;
    product.magnitude += std::fabs(term);
  }
  return product;
}

void CheckAlign(ContractRunner& runner, const RandomDocuments& documents, const RandomQuery& query,
                absl::Span<const uint32_t> ordinals) {
  const Documents& loaded = runner.Load(documents);
  const auto num_tokens = static_cast<size_t>(query.tokens.num_tokens());
  std::vector<TokenMatch> matches(ordinals.size() * num_tokens, {-7, std::numeric_limits<float>::quiet_NaN()});
  const absl::Status status = runner.executor().Align(loaded, query.view(1), ordinals, absl::MakeSpan(matches));
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<std::vector<double>> query_rows = QueryRows(documents, query);
  const bool exact = documents.tokens.type() == ScalarType::kI8;
  for (size_t row = 0; row < ordinals.size(); ++row) {
    const std::vector<ReferenceMatch> reference = ReferenceAlign(documents.view(), query.view(1), ordinals[row]);
    for (size_t token = 0; token < num_tokens; ++token) {
      SCOPED_TRACE(testing::Message() << "document " << ordinals[row] << ", query token " << token);
      const TokenMatch& match = matches[row * num_tokens + token];
      ASSERT_GE(match.document_token, 0);
      ASSERT_LT(match.document_token, documents.length(ordinals[row]));
      const Product product =
          InnerProduct(query_rows[token], DocumentRow(documents, ordinals[row], match.document_token));
      const double tolerance = 1e-5 * product.magnitude;
      EXPECT_NEAR(match.similarity, product.value, tolerance);
      if (exact) {
        EXPECT_EQ(match.document_token, reference[token].document_token);
      }
      // The backend may choose another document token than the reference only if their similarities are equal within
      // rounding.
      EXPECT_NEAR(product.value, reference[token].similarity, tolerance);
    }
  }
}

void AlignMatchesReference(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t dim : {9, 50, 128, 300}) {
      if (!TakesDim(type, dim)) continue;
      for (int32_t num_tokens : {1, 32, 33, 100}) {
        if (kSanitized && dim > 50 && num_tokens > 33) continue;
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", query tokens " << num_tokens);
        const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, BoundaryLengths());
        RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        query.weights = MixedWeights(TestSeed(), num_tokens);
        const auto last = static_cast<uint32_t>(documents.num_documents() - 1);
        const uint32_t ordinals[] = {last, 0, 7, 7, 1, last - 3};
        CheckAlign(runner, documents, query, ordinals);
      }
    }
  }
  for (ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const int32_t dim = kSanitized ? 8 : 48;
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {1, kMaxDocumentTokens});
    const uint32_t ordinals[] = {1};
    CheckAlign(runner, documents, MakeQuery(TestSeed() + 1, type, dim, 3), ordinals);
  }
}

void AlignTakesTheFirstOfEqualTokens(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    // The document repeats the same 37 tokens three times.
    RandomDocuments documents = MakeDocuments(TestSeed(), type, 40, {3 * 37});
    for (int64_t token = 37; token < 3 * 37; ++token) documents.tokens.CopyRow(documents.tokens, token - 37, token);
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 40, 64);
    const Documents& loaded = runner.Load(documents);
    std::vector<TokenMatch> matches(64, {-7, std::numeric_limits<float>::quiet_NaN()});
    const uint32_t ordinals[] = {0};
    ASSERT_TRUE(runner.executor().Align(loaded, query.view(1), ordinals, absl::MakeSpan(matches)).ok());
    for (const TokenMatch& match : matches) EXPECT_LT(match.document_token, 37);
  }
}

// Tests that the similarity that Align returns has the same bits as the score, for a query of one token.
void AlignAddsUpToTheScore(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 200, BoundaryLengths());
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 200, 1);
    const Documents& loaded = runner.Load(documents);
    for (const Scored& scored : runner.TopK(query.view(kMaxTopK))) {
      TokenMatch match;
      ASSERT_TRUE(runner.executor().Align(loaded, query.view(1), {&scored.position, 1}, {&match, 1}).ok());
      EXPECT_EQ(std::bit_cast<uint32_t>(match.similarity), std::bit_cast<uint32_t>(scored.score));
    }
  }
}

void StagedDocuments(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kWritableTypes) {
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 100, 33);
    for (uint64_t seed : {TestSeed(), TestSeed() + 9}) {
      const RandomDocuments documents = MakeDocuments(seed, type, 100, BoundaryLengths(), 2);
      runner.Load(documents);
      const std::vector<Scored> expected = runner.TopK(query.view(5));
      const absl::StatusOr<const Documents*> staged = runner.executor().Stage(documents.view());
      ASSERT_TRUE(staged.ok()) << staged.status();
      EXPECT_EQ((*staged)->num_documents(), documents.num_documents());
      const Query call = query.view(5);
      std::vector<std::vector<Scored>> results(1);
      ASSERT_TRUE(runner.executor().TopK(**staged, {&call, 1}, absl::MakeSpan(results), nullptr).ok());
      ExpectSameBits(expected, results[0]);
    }
  }
}

void Description(Backend& backend) {
  EXPECT_FALSE(backend.info().name.empty());
  EXPECT_FALSE(backend.info().device.empty());
  EXPECT_FALSE(backend.info().isa.empty());
  EXPECT_GT(backend.info().parallelism, 0);
  const absl::StatusOr<size_t> free_bytes = backend.FreeBytes();
  ASSERT_TRUE(free_bytes.ok()) << free_bytes.status();
  EXPECT_GT(*free_bytes, 0u);
  EXPECT_LE(*free_bytes, backend.info().memory_bytes);
  EXPECT_TRUE(backend.Health().ok());

  ContractRunner runner(backend);
  for (ScalarType type : {ScalarType::kBF16, ScalarType::kI8, ScalarType::kResidual4}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 72, BoundaryLengths());
    const Documents& loaded = runner.Load(documents);
    EXPECT_EQ(loaded.type(), type);
    EXPECT_EQ(loaded.dim(), 72);
    EXPECT_EQ(loaded.num_documents(), documents.num_documents());
    EXPECT_EQ(loaded.num_tokens(), documents.offsets.back());
    MemoryNeed need = backend.BytesNeeded(type, 72, loaded.num_documents(), loaded.num_tokens(), Tier::kDevice);
    if (IsResidual(type)) {
      const MemoryNeed codebook = backend.CodebookBytesNeeded(type, 72, documents.view().codebook.num_centroids);
      need.device_bytes += codebook.device_bytes;
      need.host_bytes += codebook.host_bytes;
    }
    EXPECT_EQ(loaded.memory(), need);
  }
}

void LoadKeepsItsMemoryAlive(Backend& backend) {
  auto owned = std::make_shared<RandomDocuments>(MakeDocuments(TestSeed(), ScalarType::kF16, 64, BoundaryLengths()));
  const RandomDocuments copy = *owned;
  absl::StatusOr<std::unique_ptr<Documents>> loaded = backend.Load(owned->view(), Tier::kDevice, owned);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  owned.reset();
  ContractRunner runner(backend);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 64, 32);
  const Query call = query.view(100);
  std::vector<std::vector<Scored>> results(1);
  ASSERT_TRUE(runner.executor().TopK(**loaded, {&call, 1}, absl::MakeSpan(results), nullptr).ok());
  ExpectMatchesReference(copy, call, results[0]);
}

void BadDocuments(Backend& backend) {
  const RandomDocuments good = MakeDocuments(TestSeed(), ScalarType::kF16, 16, {2, 3});
  const auto load = [&](DocumentsView view) { return backend.Load(view, Tier::kDevice, nullptr).status(); };
  const auto with_offsets = [&](const std::vector<int64_t>& offsets) {
    DocumentsView view = good.view();
    view.offsets = offsets.data();
    return load(view);
  };
  DocumentsView view = good.view();
  view.dim = kMinDim - 1;
  ExpectInvalid(load(view), "dim is 7; must be 8 to 4096");
  view.dim = kMaxDim + 1;
  ExpectInvalid(load(view), "dim is 4097; must be 8 to 4096");
  view = good.view();
  view.type = ScalarType::kI8;
  ExpectInvalid(load(view), "documents.scales is null for i8");
  const float scales[2] = {1, 1};
  view = good.view();
  view.scales = scales;
  ExpectInvalid(load(view), "documents.scales is set for f16");
  view = good.view();
  view.num_documents = -1;
  ExpectInvalid(load(view), "num_documents is -1");
  view.num_documents = kMaxShardDocuments + 1;
  ExpectInvalid(load(view), "num_documents is 4294967296");
  view = good.view();
  view.tokens = nullptr;
  ExpectInvalid(load(view), "tokens is null");
  view.tokens = static_cast<const char*>(good.tokens.data()) + 1;
  ExpectInvalid(load(view), "odd address");
  view = good.view();
  view.offsets = nullptr;
  ExpectInvalid(load(view), "offsets is null");
  ExpectInvalid(with_offsets({1, 2, 3}), "offsets[0] is 1; must be 0");
  ExpectInvalid(with_offsets({0, 2, 2}), "offsets[2] is 2 after 2");
  ExpectInvalid(with_offsets({0, 2, 1}), "offsets[2] is 1 after 2");
  ExpectInvalid(with_offsets({0, kMaxDocumentTokens + 1, kMaxDocumentTokens + 2}), "1 to 65536 tokens");
  ExpectInvalid(with_offsets({0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}),
                "1 to 65536 tokens");
}

void BadQueries(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, {2, 3});
  const Documents& loaded = runner.Load(documents);
  const RandomQuery good = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, 4);
  const auto top_k = [&](const Query& bad) {
    const Query queries[] = {good.view(1), bad};
    std::vector<std::vector<Scored>> results(2);
    return runner.executor().TopK(loaded, queries, absl::MakeSpan(results), nullptr);
  };
  Query query = good.view(1);
  query.num_tokens = 0;
  ExpectInvalid(top_k(query), "queries[1].num_tokens is 0; must be 1 to 4096");
  query.num_tokens = kMaxQueryTokens + 1;
  ExpectInvalid(top_k(query), "queries[1].num_tokens is 4097; must be 1 to 4096");
  query = good.view(1);
  query.tokens = nullptr;
  ExpectInvalid(top_k(query), "queries[1].tokens is null");
  ExpectInvalid(top_k(good.view(0)), "queries[1].top_k is 0; must be 1 to 10000");
  ExpectInvalid(top_k(good.view(kMaxTopK + 1)), "queries[1].top_k is 10001; must be 1 to 10000");
  const std::vector<uint32_t> ordinals = {0, 2, 1};
  ExpectInvalid(top_k(good.view(1, &ordinals)), "queries[1].ordinals[1] is 2; must be below 2");
  query = good.view(1, &ordinals);
  query.num_candidates = -1;
  ExpectInvalid(top_k(query), "queries[1].num_candidates is -1");
  RandomQuery weighted = good;
  for (float weight : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -2e6f}) {
    weighted.weights = {1, 1, weight, 1};
    ExpectInvalid(top_k(weighted.view(1)), "queries[1].weights[2] is ");
  }
  std::vector<std::vector<Scored>> results(2);
  query = good.view(1);
  ExpectInvalid(runner.executor().TopK(loaded, {&query, 1}, absl::MakeSpan(results), nullptr), "results has 2");
  // A refused call leaves the executor usable.
  EXPECT_EQ(runner.TopK(good.view(2)).size(), 2u);
}

void BadAlignCalls(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, {2, 3});
  const Documents& loaded = runner.Load(documents);
  const RandomQuery good = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, 4);
  std::vector<TokenMatch> matches(8);
  const uint32_t ordinals[] = {1, 2};
  const uint32_t right[] = {1, 0};
  const absl::Span<TokenMatch> all = absl::MakeSpan(matches);
  ExpectInvalid(runner.executor().Align(loaded, good.view(1), ordinals, all), "ordinals[1] is 2; must be below 2");
  ExpectInvalid(runner.executor().Align(loaded, good.view(1), right, all.subspan(1)), "matches has 7");
  Query query = good.view(1);
  query.num_tokens = 0;
  ExpectInvalid(runner.executor().Align(loaded, query, right, all), "num_tokens is 0");
  EXPECT_TRUE(runner.executor().Align(loaded, good.view(1), right, all).ok());
  EXPECT_TRUE(runner.executor().Align(loaded, good.view(1), {}, {}).ok());
}

}  // namespace

std::vector<ContractCase> CallCases() {
  return {
      {"AlignMatchesFp64", &AlignMatchesReference},
      {"AlignTakesTheFirstOfEqualTokens", &AlignTakesTheFirstOfEqualTokens},
      {"AlignAddsUpToTheScore", &AlignAddsUpToTheScore},
      {"StagedDocumentsScoreLikeLoadedOnes", &StagedDocuments},
      {"LoadKeepsItsMemoryAlive", &LoadKeepsItsMemoryAlive},
      {"BackendAndDocumentsDescribeThemselves", &Description},
      {"BadDocumentsAreRefused", &BadDocuments},
      {"BadQueriesAreRefused", &BadQueries},
      {"BadAlignCallsAreRefused", &BadAlignCalls},
  };
}

}  // namespace maxsim::test
