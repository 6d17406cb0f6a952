// Tests comparing the rankings of two collections with different storage types. build/quantize_command_test.cc tests
// more cases.
#include "collection/evaluation/storage_comparison.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collection/build/builder.h"
#include "collection/build/sources/memory_sources.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::evaluation {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kDim = 16;

class StorageComparisonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = 1, .isa = ""});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Makes documents of 3 tokens. Another `turn` gives other values, and so other rankings.
  ScoredCollection Make(const std::string& name, int num_documents, ScalarType storage, int turn = 0,
                        int32_t dim = kDim, int64_t max_shard_bytes = collection::kMinMaxShardBytes) {
    collection::Catalog catalog(collection::IdType::kInt64);
    catalog.lengths.assign(static_cast<size_t>(num_documents), 3);
    for (int64_t id = 0; id < num_documents; ++id) EXPECT_TRUE(catalog.ids.Add(1000 + id).ok());
    std::vector<float> values;
    for (int64_t idx = 0; idx < int64_t{num_documents} * 3 * dim; ++idx) {
      values.push_back(static_cast<float>(((idx + turn) * 7919) % 1013 - 506) / 512);
    }
    collection::MemoryTokens tokens(collection::ElementType::kF32, dim, num_documents * 3, values.data());
    collection::BuildOptions options;
    options.folder = folder_ + "/" + name;
    options.name = name;
    options.storage = storage;
    options.max_shard_bytes = max_shard_bytes;
    const auto manifest = collection::BuildCollection(options, catalog, tokens, nullptr);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    absl::StatusOr<ScoredCollection> opened = ScoredCollection::Open(options.folder, backend_.get());
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }

  const std::string folder_ = ::testing::TempDir() + "/storage_comparison_" + std::to_string(getpid());
  std::unique_ptr<Backend> backend_;
};

TEST_F(StorageComparisonTest, ACollectionEqualsItself) {
  ScoredCollection first = Make("a", 300, ScalarType::kF16);
  ScoredCollection second = Make("b", 300, ScalarType::kF16);
  int64_t calls = 0;
  const auto comparison = CompareStorage(first, second, {.sample = 7, .observer = [&](int64_t done, int64_t total) {
                                                           EXPECT_EQ(done, ++calls);
                                                           EXPECT_EQ(total, 7);
                                                           return absl::OkStatus();
                                                         }});
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(comparison->num_queries, 7);
  EXPECT_EQ(comparison->num_correlated, 300);
  EXPECT_EQ(comparison->overlap_depth, 100);
  EXPECT_DOUBLE_EQ(comparison->mean_spearman, 1);
  EXPECT_DOUBLE_EQ(comparison->least_spearman, 1);
  EXPECT_DOUBLE_EQ(comparison->mean_overlap, 1);
  EXPECT_EQ(comparison->num_judged, 0);
}

TEST_F(StorageComparisonTest, OfALargeCollectionSomeDocumentsAreCorrelated) {
  constexpr int kLarge = kMaxTopK + 1;
  ScoredCollection first = Make("a", kLarge, ScalarType::kF16, 0, kDim, 200'000);
  ScoredCollection second = Make("b", kLarge, ScalarType::kI8, 0, kDim, 200'000);
  ASSERT_GT(first.manifest().shards.size(), 1u);
  const auto comparison = CompareStorage(first, second, {.sample = 2});
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->num_correlated, kMaxCorrelated);
  EXPECT_GT(comparison->mean_spearman, 0.999);
  EXPECT_LT(comparison->mean_spearman, 1);
  EXPECT_GT(comparison->mean_overlap, 0.5) << "each document is there ten times: ties reach beyond rank 100";
}

TEST_F(StorageComparisonTest, OtherDocumentsShow) {
  ScoredCollection first = Make("a", 300, ScalarType::kF16);
  ScoredCollection second = Make("b", 300, ScalarType::kF16, 5);
  const auto comparison = CompareStorage(first, second, {.sample = 7});
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_LT(comparison->mean_spearman, 0.9);
  EXPECT_LT(comparison->mean_overlap, 0.9);
  EXPECT_LE(comparison->least_spearman, comparison->mean_spearman);
}

TEST_F(StorageComparisonTest, JudgementsGiveNdcgOfBoth) {
  ScoredCollection first = Make("a", 50, ScalarType::kF32);
  ScoredCollection second = Make("b", 50, ScalarType::kF32, 5);
  const std::vector<float> rows = first.Rows(20, 3);
  const std::vector<int32_t> lengths = {3, 3};
  std::vector<float> values = rows;
  values.insert(values.end(), rows.begin(), rows.end());
  const QuerySet queries = QuerySet::FromFloats(kDim, lengths, values);
  const auto ranking = first.TopK(queries, 0, 1);
  ASSERT_TRUE(ranking.ok());
  EXPECT_EQ(ranking->front().position, 20u) << "a document is nearest to itself";
  EXPECT_EQ(first.IdText(20), "1020");
  const std::vector<QueryText> texts = {{.id = "judged", .text = "", .tokens = {}},
                                        {.id = "not judged", .text = "", .tokens = {}}};
  const Judgements judgements = {{"judged", {{"1020", 1.0}}}};
  const auto comparison =
      CompareStorage(first, second, {.queries = &queries, .sample = 0, .texts = &texts, .judgements = &judgements});
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->num_queries, 2);
  EXPECT_EQ(comparison->num_judged, 1);
  EXPECT_DOUBLE_EQ(comparison->ndcg_before, 1);
  EXPECT_LT(comparison->ndcg_after, 1);
}

TEST_F(StorageComparisonTest, ScoresAreTheKernelsThroughAllShards) {
  ScoredCollection collection = Make("a", 200, ScalarType::kI8);
  ASSERT_GT(collection.manifest().shards.size(), 1u);
  const std::vector<float> values(2 * kDim, 0.25F);
  const std::vector<int32_t> lengths = {2};
  const QuerySet queries = QuerySet::FromFloats(kDim, lengths, values);
  const auto best = collection.TopK(queries, 0, 200);
  ASSERT_TRUE(best.ok()) << best.status();
  ASSERT_EQ(best->size(), 200u);
  std::vector<uint64_t> ordinals;
  for (uint64_t ordinal = 0; ordinal < 200; ordinal += 3) ordinals.push_back(ordinal);
  const auto scores = collection.Scores(queries, 0, ordinals);
  ASSERT_TRUE(scores.ok()) << scores.status();
  for (size_t rank = 0; rank < 200; ++rank) {
    const ScoredDocument& document = (*best)[rank];
    if (rank > 0) {
      EXPECT_GE((*best)[rank - 1].score, document.score);
    }
    if (document.position % 3 == 0) {
      EXPECT_EQ((*scores)[document.position / 3], document.score);
    }
  }
}

TEST_F(StorageComparisonTest, WhatCannotBeComparedIsRefused) {
  ScoredCollection first = Make("a", 50, ScalarType::kF16);
  ScoredCollection shorter = Make("b", 49, ScalarType::kF16);
  ScoredCollection wider = Make("c", 50, ScalarType::kF16, 0, 24);
  ScoredCollection quantized = Make("d", 50, ScalarType::kI8);
  const auto error = [](ScoredCollection& a, ScoredCollection& b, const StorageComparisonOptions& options = {}) {
    const absl::Status status = CompareStorage(a, b, options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(error(first, shorter), HasSubstr("50 documents of 150 tokens x 16 and 49 of 147 x 16"));
  EXPECT_THAT(error(first, wider), HasSubstr("x 24"));
  EXPECT_THAT(error(quantized, first),
              HasSubstr("an i8 collection's documents cannot serve as queries; give --queries"));
  const std::vector<float> values(8, 1);
  const std::vector<int32_t> lengths = {1};
  const QuerySet narrow = QuerySet::FromFloats(8, lengths, values);
  EXPECT_THAT(error(first, quantized, {.queries = &narrow}), HasSubstr("dimension is 8, the collection's 16"));
  EXPECT_THAT(error(first, quantized, {.observer = [](int64_t, int64_t) { return absl::CancelledError("enough"); }}),
              HasSubstr("enough"));
}

}  // namespace
}  // namespace maxsim::evaluation
