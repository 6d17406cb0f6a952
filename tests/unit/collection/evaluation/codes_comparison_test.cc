// Tests CompareCodes, which reports how many of the exact top k documents a search with codes finds.
#include "collection/evaluation/codes_comparison.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/codes/reference_codes.h"
#include "kernels/rank_order.h"
#include "tests/unit/collection/codes/codes_fixture.h"

namespace maxsim::evaluation {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kCodedDim = 32;
constexpr int32_t kQueryTokens = 4;

class CodesComparisonTest : public ::testing::TestWithParam<ScalarType> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = 1, .isa = ""});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    const collection::RandomDocuments queries(40, kCodedDim, false, 9);
    const std::vector<int32_t> lengths(20, kQueryTokens);
    queries_ = QuerySet::FromFloats(kCodedDim, lengths,
                                    absl::MakeConstSpan(queries.values).subspan(0, 20 * kQueryTokens * kCodedDim));
  }

  collection::Manifest Build(const std::string& name, int64_t max_shard_bytes, int planes = 4) {
    const auto manifest = random_.Build({.folder = folder_.Path(name),
                                         .name = "x",
                                         .storage = GetParam(),
                                         .max_shard_bytes = max_shard_bytes,
                                         .codes = {.planes = planes}});
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  absl::StatusOr<CodesComparison> Compare(const std::string& name, CodesComparisonOptions options) {
    absl::StatusOr<ScoredCollection> exact = ScoredCollection::Open(folder_.Path(name), backend_.get());
    EXPECT_TRUE(exact.ok()) << exact.status();
    options.queries = &queries_;
    return CompareCodes(folder_.Path(name), *exact, options);
  }
  CodesComparison OrFail(const absl::StatusOr<CodesComparison>& comparison) {
    EXPECT_TRUE(comparison.ok()) << comparison.status();
    return *comparison;
  }

  collection::RandomDocuments random_{400, kCodedDim, false};
  collection::TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_;
  QuerySet queries_;
};

// Computes the expected recall with the plain loops of the reference, if the `refined` documents with the best
// estimates are scored exactly.
double ReferenceRecall(const collection::OpenedCodes& opened, ScoredCollection& exact, const QuerySet& queries,
                       int planes, int32_t top_k, size_t refined) {
  const CodesView view = opened.view();
  double sum = 0;
  for (int64_t query = 0; query < queries.size(); ++query) {
    const std::string rounded = queries.Rounded(query, QueryType(view.shape.originals));
    std::vector<float> tokens(static_cast<size_t>(queries.num_tokens(query)) * kCodedDim);
    ConvertElements(QueryType(view.shape.originals), rounded.data(), ScalarType::kF32, tokens.data(), tokens.size());
    const auto codes = EncodeQuery(view.shape, planes, tokens, {});
    EXPECT_TRUE(codes.ok());
    std::vector<ScoredDocument> ranked;
    for (int64_t document = 0; document < view.num_documents; ++document) {
      ranked.push_back({static_cast<uint64_t>(document),
                        Estimate(*codes, ReferenceSumsOf(view, *codes, document).sum, view.scales[document])});
    }
    std::sort(ranked.begin(), ranked.end(), RanksBefore);
    ranked.resize(refined);
    const auto best = exact.TopK(queries, query, top_k);
    EXPECT_TRUE(best.ok());
    for (const ScoredDocument& one : *best) {
      // An exact top-k document counts as found if it is among the refined documents.
      sum += std::count_if(ranked.begin(), ranked.end(),
                           [&](const ScoredDocument& other) { return other.position == one.position; });
    }
  }
  return sum / static_cast<double>(queries.size()) / top_k;
}

TEST_P(CodesComparisonTest, ScansThatRefineAllDocumentsFindAll) {
  Build("x", 20'000);
  const CodesComparison comparison = OrFail(Compare("x", {.top_k = 10}));
  EXPECT_EQ(comparison.num_queries, 20);
  EXPECT_EQ(comparison.top_k, 10);
  EXPECT_EQ(comparison.num_refined, 400);
  ASSERT_EQ(comparison.planes.size(), 3);
  for (const PlanesAgreement& one : comparison.planes) {
    EXPECT_EQ(one.mean_recall, 1);
    EXPECT_EQ(one.least_recall, 1);
    EXPECT_EQ(one.num_same, 20);
    EXPECT_EQ(one.num_proven, 20);
  }
}

TEST_P(CodesComparisonTest, RecallIsThatOfTheReferenceWhateverTheShardsAre) {
  const collection::Manifest manifest = Build("one", collection::kDefaultMaxShardBytes);
  ASSERT_EQ(manifest.shards.size(), 1);
  ASSERT_GT(Build("many", 20'000).shards.size(), 3);
  const CodesComparison one = OrFail(Compare("one", {.top_k = 10, .num_refined = 20}));
  const CodesComparison many = OrFail(Compare("many", {.top_k = 10, .num_refined = 20, .num_threads = 3}));
  absl::StatusOr<ScoredCollection> exact = ScoredCollection::Open(folder_.Path("one"), backend_.get());
  ASSERT_TRUE(exact.ok());
  const collection::OpenedCodes opened = collection::OpenCodes(folder_.Path("one"), manifest, 0, 4);
  ASSERT_EQ(one.planes.size(), 3);
  for (size_t idx = 0; idx < 3; ++idx) {
    EXPECT_EQ(one.planes[idx].planes, 1 << idx);
    EXPECT_NEAR(one.planes[idx].mean_recall, ReferenceRecall(opened, *exact, queries_, one.planes[idx].planes, 10, 20),
                1e-12);
    EXPECT_EQ(one.planes[idx].mean_recall, many.planes[idx].mean_recall);
    EXPECT_EQ(one.planes[idx].least_recall, many.planes[idx].least_recall);
    EXPECT_EQ(one.planes[idx].num_same, many.planes[idx].num_same);
    EXPECT_EQ(one.planes[idx].num_proven, many.planes[idx].num_proven);
    // A proven answer is the exact one.
    EXPECT_LE(one.planes[idx].num_proven, 20);
  }
  EXPECT_LT(one.planes[0].mean_recall, 1);
  EXPECT_GT(one.planes[2].mean_recall, one.planes[0].mean_recall);
}

TEST_P(CodesComparisonTest, PlanesThatAreStoredAreComparedForAsManyQueriesAsAreAskedFor) {
  Build("x", 20'000, 2);
  int64_t calls = 0;
  const CodesComparison comparison =
      OrFail(Compare("x", {.sample = 3, .top_k = 5, .num_refined = 30, .observer = [&](int64_t done, int64_t total) {
                             EXPECT_EQ(done, ++calls);
                             EXPECT_EQ(total, 3);
                             return absl::OkStatus();
                           }}));
  EXPECT_EQ(comparison.num_queries, 3);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(comparison.planes.size(), 2);
  const auto stopped = Compare("x", {.observer = [](int64_t, int64_t) { return absl::CancelledError("a test"); }});
  EXPECT_TRUE(absl::IsCancelled(stopped.status()));
}

TEST_P(CodesComparisonTest, WhatIsWrongIsSaid) {
  Build("x", 20'000, 0);
  const absl::Status none = Compare("x", {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("has no codes"));
  Build("x", 20'000, 1);
  EXPECT_THAT(std::string(Compare("x", {.top_k = 10, .num_refined = 9}).status().message()),
              HasSubstr("refined documents: 9 for the top 10"));
  EXPECT_TRUE(absl::IsInvalidArgument(Compare("x", {.top_k = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Compare("x", {.top_k = 1, .num_refined = 10'001}).status()));
  queries_ = QuerySet::FromFloats(8, std::vector<int32_t>{1}, std::vector<float>(8, 0.5f));
  EXPECT_THAT(std::string(Compare("x", {}).status().message()), HasSubstr("the queries' dimension is 8"));
}

INSTANTIATE_TEST_SUITE_P(Storages, CodesComparisonTest, ::testing::Values(ScalarType::kF16, ScalarType::kI8),
                         [](const auto& one) { return std::string(Name(one.param)); });

}  // namespace
}  // namespace maxsim::evaluation
