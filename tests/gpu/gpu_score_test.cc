// Tests scores for sizes one below, at and one above the edges of the kernels' tiles: rows, tokens and columns.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "tests/gpu/gpu_score_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

// Makes one small call with every kernel. The sanitizers also run this test.
TEST_F(GpuScoreTest, EveryKernelOnce) {
  ExecutorOptions options;
  options.max_query_tokens = 1024;
  options.max_candidates = 10000;
  options.max_dim = kMaxDim;
  options.max_staged_bytes = 1 << 20;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  std::set<std::pair<ScoreTile, bool>> kernels;
  for (ScalarType type : kTypes) {
    for (int32_t dim : {40, 128, 200, 1000, 2100, 4096}) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {3, 64, 129});
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (int32_t num_tokens : {7, 50, 280}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", query tokens " << num_tokens);
        const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        for (ScoreTile tile : kAllScoreTiles) {
          executor->tuning().tiles = Only(tile);
          for (int32_t teams : {0, 1}) {
            if (teams > 0 && !IsStream(tile)) continue;
            executor->tuning().stream = {.teams = teams};
            Check(*executor, *loaded, documents, query.view(3));
          }
          kernels.emplace(executor->trace().plan.tile, executor->trace().plan.query_resident);
        }
        const uint32_t ordinal = 2;
        std::vector<TokenMatch> matches(static_cast<size_t>(num_tokens));
        EXPECT_TRUE(executor->Align(*loaded, query.view(1), {&ordinal, 1}, absl::MakeSpan(matches)).ok());
      }
    }
  }
  // The number of pairs of tiling and query_resident that exist. Hopper GPUs have seven more than others.
  EXPECT_EQ(kernels.size(), backend().device()->limits.hopper ? 14u : 7u);
}

TEST_F(GpuScoreTest, MatchesFp64AtTheEdgesOfTokenTiles) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const std::vector<int64_t> lengths = {1,  2,  7,   8,   9,   15,  16,  17,  31,  32,  33,  63,  64,
                                        65, 95, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300, 1024};
  for (ScalarType type : kTypes) {
    for (int32_t dim : {48, 128}) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (int32_t num_tokens : {1, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 257}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", query tokens " << num_tokens);
        const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        for (const uint32_t tiles : {kAnyTile, kTilesOfLongCalls}) {
          executor->tuning().tiles = tiles;
          Check(*executor, *loaded, documents, query.view(kMaxTopK));
        }
      }
    }
  }
}

TEST_F(GpuScoreTest, MatchesFp64AtTheEdgesOfStepsAndChunks) {
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  for (ScalarType type : kTypes) {
    for (int32_t dim : {8,   9,   15,  16,  17,  23,  24,  25,  31,  32,  33,  63,   64,   65,   72,   96,   100, 104,
                        127, 128, 129, 136, 191, 192, 193, 256, 257, 300, 768, 1024, 1025, 2048, 2049, 4095, 4096}) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {1, 63, 64, 65, 130});
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (int32_t num_tokens : {5, 40, 130}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", query tokens " << num_tokens);
        RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        query.weights = MixedWeights(TestSeed() + 2, num_tokens);
        for (const uint32_t tiles : {kAnyTile, kTilesOfLongCalls}) {
          executor->tuning().tiles = tiles;
          Check(*executor, *loaded, documents, query.view(kMaxTopK));
        }
      }
    }
  }
}

TEST_F(GpuScoreTest, MatchesFp64ForTheLongestQueryAndDocument) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  for (ScalarType type : {ScalarType::kF16, ScalarType::kF32, ScalarType::kI8}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 16, {1, kMaxDocumentTokens, 100});
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (int32_t num_tokens : {3, kMaxQueryTokens}) {
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, 16, num_tokens);
      Check(*executor, *loaded, documents, query.view(3));
    }
  }
}

// A thread block has several times as many candidates as its table holds.
TEST_F(GpuScoreTest, ManyShortDocumentsAThreadBlock) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const int64_t count = int64_t{backend().info().parallelism} * 2 * 500;
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, RandomLengths(1, count, 1, 5));
  const std::unique_ptr<Documents> loaded = Load(documents);
  for (int32_t num_tokens : {4, 40, 128}) {
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, num_tokens);
    Check(*executor, *loaded, documents, query.view(kMaxTopK));
  }
}

// The tilings differ in rows, tokens, column chunks and instructions. All must give each pair of query and document the
// same bits.
TEST_F(GpuScoreTest, EveryTileGivesTheSameBits) {
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  std::set<ScoreTile> seen;
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {40, 64, 72, 104, 120, 128, 136, 200, 256, 264, 768, 1024, 1025, 1032, 2100, 4096}) {
      const RandomDocuments documents =
          MakeDocuments(TestSeed(), type, dim, RandomLengths(TestSeed(), dim > 500 ? 60 : 400, 1, 400));
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (int32_t num_tokens : {1, 20, 32, 33, 100, 300}) {
        RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        query.weights = MixedWeights(TestSeed() + 2, num_tokens);
        executor->tuning().tiles = Only(ScoreTile::kRows32);
        const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(400)})[0];
        for (ScoreTile tile : kAllScoreTiles) {
          executor->tuning().tiles = Only(tile);
          // The query is scored alone, and together with more and more other queries, so that it lies at different
          // places of the row tiles.
          for (int others : {0, 1, 2, 7}) {
            std::vector<RandomQuery> storage;
            for (int i = 0; i < others; ++i) storage.push_back(MakeQuery(TestSeed() + 10 + i, type, dim, 10 + 13 * i));
            std::vector<Query> queries;
            for (const RandomQuery& other : storage) queries.push_back(other.view(5));
            queries.push_back(query.view(400));
            SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", tokens " << num_tokens << ", others "
                                            << others << ", " << Name(tile));
            ExpectSameBits(expected, TopK(*executor, *loaded, queries).back());
            seen.insert(executor->trace().plan.tile);
          }
        }
      }
    }
  }
  for (ScoreTile tile : {ScoreTile::kWide256, ScoreTile::kDeep128, ScoreTile::kDeep256}) {
    EXPECT_EQ(seen.contains(tile), backend().device()->limits.hopper) << Name(tile);
  }
  EXPECT_TRUE(seen.contains(ScoreTile::kRows128));
}

TEST_F(GpuScoreTest, TwentyRunsGiveTheSameBits) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  for (ScalarType type : kTypes) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 128, RandomLengths(TestSeed(), 3000, 1, 200));
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (int32_t num_tokens : {32, 300}) {
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, 128, num_tokens);
      const std::vector<Scored> first = TopK(*executor, *loaded, {query.view(3000)})[0];
      for (int run = 1; run < 20; ++run) ExpectSameBits(first, TopK(*executor, *loaded, {query.view(3000)})[0]);
    }
  }
}

// The memory for partial sums holds only some of the candidates, so the call takes several passes.
TEST_F(GpuScoreTest, PassesOverCandidatesGiveTheSameBits) {
  ExecutorOptions small;
  small.max_queries = 2;
  small.max_query_tokens = 2 * kMaxQueryTokens;
  small.max_candidates = 40000;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(small);
  const std::unique_ptr<cuda::CudaExecutor> roomy = MakeExecutor();
  for (const auto& [type, dim] : {Shape(ScalarType::kF16, 8), Shape(ScalarType::kF16, 136),
                                  Shape(ScalarType::kF16, 264), Shape(ScalarType::kI8, 8)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, RandomLengths(2, 20000, 1, 3));
    const std::unique_ptr<Documents> loaded = Load(documents);
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, kMaxQueryTokens);
    const RandomQuery brief = MakeQuery(TestSeed() + 2, type, dim, 7);
    const std::vector<Query> queries = {query.view(kMaxTopK), brief.view(kMaxTopK)};
    const std::vector<std::vector<Scored>> expected = TopK(*roomy, *loaded, queries);
    const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
    ExpectMatchesReference(documents, queries[1], actual[1]);
    for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
  }
}

// The queries need more pinned memory than there is at once. So the call is divided into slices, which must not change
// the results.
TEST_F(GpuScoreTest, SlicesOfACallGiveTheSameBits) {
  ExecutorOptions options;
  options.max_queries = 40;
  options.max_query_tokens = 40 * kMaxQueryTokens;
  options.max_dim = 256;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  for (ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 256, RandomLengths(3, 50, 1, 40));
    const std::unique_ptr<Documents> loaded = Load(documents);
    std::vector<RandomQuery> storage;
    std::vector<Query> queries;
    for (int i = 0; i < 40; ++i) storage.push_back(MakeQuery(TestSeed() + i, type, 256, kMaxQueryTokens - i));
    for (const RandomQuery& query : storage) queries.push_back(query.view(50));
    const std::vector<std::vector<Scored>> together = TopK(*executor, *loaded, queries);
    for (size_t i : {size_t{0}, size_t{17}, size_t{39}}) {
      ExpectSameBits(TopK(*executor, *loaded, {queries[i]})[0], together[i]);
    }
  }
}

// All documents except the candidates are filled with NaN or the largest elements. A kernel that used the rows directly
// before or after a candidate would give a wrong score.
TEST_F(GpuScoreTest, NothingPastADocumentsEndIsUsed) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  for (ScalarType type : kTypes) {
    for (int32_t dim : {20, 64, 128, 200, 520}) {
      std::vector<int64_t> lengths;
      for (int64_t length : {1, 15, 16, 17, 31, 33, 63, 65, 100, 127, 129, 191, 193, 200}) {
        lengths.insert(lengths.end(), {70, length});
      }
      lengths.push_back(70);
      RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      std::vector<uint32_t> ordinals;
      const RandomDocuments clean = documents;
      for (size_t n = 0; n < lengths.size(); ++n) {
        if (n % 2 == 0) {
          documents.Poison(static_cast<int64_t>(n));
        } else {
          ordinals.push_back(static_cast<uint32_t>(n));
        }
      }
      const std::unique_ptr<Documents> poisoned = Load(documents);
      const std::unique_ptr<Documents> loaded = Load(clean);
      for (int32_t num_tokens : {9, 33, 100, 280}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", query tokens " << num_tokens);
        const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        const Query call = query.view(1000, &ordinals);
        std::vector<uint32_t> neighbours;
        for (uint32_t ordinal : ordinals) neighbours.push_back(ordinal - 1);
        for (const uint32_t tiles : {kAnyTile, kTilesOfLongCalls}) {
          executor->tuning().tiles = tiles;
          // First scores the documents next to the candidates, so that their NaN remain in shared memory.
          TopK(*executor, *poisoned, {query.view(1000, &neighbours)});
          const std::vector<Scored> actual = TopK(*executor, *poisoned, {call})[0];
          ExpectMatchesReference(clean, call, actual);
          ExpectSameBits(TopK(*executor, *loaded, {call})[0], actual);
        }
      }
    }
  }
}

TEST_F(GpuScoreTest, SizesBeyondTheOptionsAreNamed) {
  ExecutorOptions options;
  options.max_queries = 2;
  options.max_query_tokens = 10;
  options.max_candidates = 5;
  options.max_dim = 16;
  options.max_staged_bytes = 100;
  options.max_staged_documents = 2;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, {1, 1, 1});
  const std::unique_ptr<Documents> loaded = Load(documents);
  const auto message = [&](const Documents& from, const std::vector<Query>& queries) {
    std::vector<std::vector<Scored>> results(queries.size());
    const absl::Status status = executor->TopK(from, queries, absl::MakeSpan(results), nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    return std::string(status.message());
  };
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, 4);
  const Query call = query.view(1);
  EXPECT_EQ(message(*loaded, {call, call, call}), "number of queries is 3; this executor was made for max_queries = 2");
  EXPECT_EQ(message(*loaded, {call, call}), "number of candidates is 6; this executor was made for max_candidates = 5");
  const RandomQuery longer = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, 11);
  EXPECT_EQ(message(*loaded, {longer.view(1)}),
            "number of query tokens is 11; this executor was made for max_query_tokens = 10");
  const RandomDocuments wide = MakeDocuments(TestSeed(), ScalarType::kF16, 17, {1});
  const RandomQuery wide_query = MakeQuery(TestSeed(), ScalarType::kF16, 17, 1);
  EXPECT_EQ(message(*Load(wide), {wide_query.view(1)}), "dimension is 17; this executor was made for max_dim = 16");
  EXPECT_EQ(executor->Stage(documents.view()).status().message(),
            "number of inline documents is 3; this executor was made for max_staged_documents = 2");
  const RandomDocuments large = MakeDocuments(TestSeed(), ScalarType::kF16, 16, {4});
  EXPECT_EQ(executor->Stage(large.view()).status().code(), absl::StatusCode::kResourceExhausted);
  // Calls within the options succeed afterwards.
  ExpectMatchesReference(documents, call, TopK(*executor, *loaded, {call})[0]);
}

TEST_F(GpuScoreTest, DocumentsThatDoNotFitAreRefusedWithTheNumbers) {
  // The documents would need more memory than the device has. Load must refuse them before it reads any token.
  const int64_t tokens_needed = static_cast<int64_t>(backend().info().memory_bytes / 8192) + 1;
  const int64_t count = tokens_needed / kMaxDocumentTokens + 1;
  std::vector<int64_t> offsets(1, 0);
  for (int64_t n = 0; n < count; ++n) offsets.push_back(offsets.back() + kMaxDocumentTokens);
  const uint64_t nothing = 0;
  const DocumentsView view{
      .type = ScalarType::kF16, .dim = 4096, .num_documents = count, .tokens = &nothing, .offsets = offsets.data()};
  const absl::StatusOr<std::unique_ptr<Documents>> loaded = backend().Load(view, Tier::kDevice, nullptr);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(loaded.status().message());
  const size_t needed = backend().BytesNeeded(view.type, view.dim, count, offsets.back(), Tier::kDevice).device_bytes;
  EXPECT_NE(message.find(std::to_string(needed)), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(backend().info().memory_bytes)), std::string::npos) << message;
  EXPECT_TRUE(backend().Health().ok());
}

TEST_F(GpuScoreTest, ADeviceThatDoesNotExistIsUnavailable) {
  const absl::StatusOr<std::unique_ptr<Backend>> none = CreateCudaBackend({.device = 4711});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(none.status().message()).find("4711"), std::string::npos) << none.status();
}

}  // namespace
}  // namespace maxsim::test
