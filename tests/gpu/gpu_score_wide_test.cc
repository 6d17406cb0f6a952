// Tests the wide kernels (several query tiles, rows up to 256 bytes), and what they share with the deep kernels (longer
// rows): several documents in a token tile, half row tiles, shared query tiles, unequal lists, ordered candidates.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_executor.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "tests/gpu/gpu_score_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

// Runs only the Hopper kernels, and is small enough for compute-sanitizer's racecheck. Some documents have several
// token tiles, and some calls have several row tiles and lists.
TEST_F(GpuScoreTest, HopperTilesOnce) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  for (int32_t dim : {40, 96, 128}) CheckHopperTiles(dim, {3, 64, 129, 1, 3000, 40});
}

// In one token tile end as many short documents as possible. In other tiles a document continues in the next tile, or
// the tile is not full. All scores are compared.
TEST_F(GpuScoreTest, TilesInWhichManyDocumentsEndGiveTheSameBits) {
  ExecutorOptions options;
  options.max_dim = 256;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  const int64_t count = std::min<int64_t>(int64_t{backend().info().parallelism} * 60, kMaxTopK);
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), count, 1, 9);
  const std::vector<int64_t> longer = RandomLengths(TestSeed() + 1, count, 9, 16);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i / 64 % 3 == 1) lengths[i] = longer[i];
    if (i % 29 == 17) lengths[i] = 150;
  }
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {64, 100, 256}) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (int32_t num_tokens : {5, 40, 300}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", query tokens " << num_tokens);
        RandomQuery query = MakeQuery(TestSeed() + 2, type, dim, num_tokens);
        query.weights = MixedWeights(TestSeed() + 3, num_tokens);
        // The query lengths let two or four queries share a query tile (32 rows). Some of these query tiles are not
        // full.
        std::vector<RandomQuery> others;
        std::vector<Query> queries = {query.view(count)};
        for (int32_t tokens : {3, 7, 8, 6, 2, 9, 16, 12}) {
          others.push_back(MakeQuery(TestSeed() + 4 + tokens, type, dim, tokens));
        }
        for (const RandomQuery& other : others) queries.push_back(other.view(count));
        executor->tuning().tiles = Only(ScoreTile::kRows32);
        const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
        for (ScoreTile tile : kAllScoreTiles) {
          if (!MayShareQueryTiles(tile)) continue;
          executor->tuning().tiles = Only(tile);
          const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
        }
      }
    }
  }
}

// A document may begin in any octet (eight tokens) of a token tile, end after any token, and continue in the next tile.
// The documents of this test have many lengths.
TEST_F(GpuScoreTest, HopperTilesMatchFp64AtEveryLength) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 272; ++n) lengths.push_back(n);
  for (int64_t n : {383, 384, 385, 511, 512, 513, 1000}) lengths.push_back(n);
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {8, 48, 64, 96, 128, 250}) {
      if (DeviceRowBytes(type, dim) > kWideMaxRowBytes) continue;  // deep kernels have a test of their own
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (ScoreTile tile : HopperTiles(type, dim)) {
        executor->tuning().tiles = Only(tile);
        for (int32_t num_tokens : {1, 32, 100, 128, 250, 256, 700}) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << " d " << dim << ", query tokens " << num_tokens << ", " << Name(tile));
          const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
          Check(*executor, *loaded, documents, query.view(kMaxTopK));
          EXPECT_EQ(executor->trace().plan.tile, tile);
        }
      }
    }
  }
}

// Queries of up to 16 tokens, and the last tokens of longer queries, share query tiles with other queries over the same
// documents. Some queries have weights. Queries over lists and queries over all documents cannot share query tiles.
TEST_F(GpuScoreTest, QueriesThatShareQueryTilesGetTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(), reference = MakeExecutor();
  reference->tuning().tiles = Only(ScoreTile::kRows32);
  std::vector<uint32_t> list(300);
  for (uint32_t i = 0; i < 300; ++i) list[i] = (i * 37u) % 500u;
  // A call: the lengths of its queries, and how many row tiles of 128 rows it takes without shared query tiles (`own`)
  // and with them (`shared`).
  struct Call {
    std::vector<int32_t> lengths;
    int64_t own, shared;
  };
  std::vector<Call> calls = {
      {{8, 1, 7, 3, 8, 5, 8, 2, 4}, 3, 1},
      {{16, 9, 12, 16, 11, 10, 9, 15, 13}, 3, 2},  // five query tiles; the last one has room for one more tail
      {{48, 33, 44, 70, 40, 80, 128, 97, 36, 49, 45}, 7, 6},
      {{3, 40, 8, 16, 17, 32, 2, 9, 33, 1, 15, 8, 300, 4, 10}, 7, 5},
  };
  for (const auto& [type, dim] :
       {Shape(ScalarType::kF16, 48), Shape(ScalarType::kBF16, 128), Shape(ScalarType::kI8, 96),
        Shape(ScalarType::kF16, 200), Shape(ScalarType::kI8, 300)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, RandomLengths(TestSeed(), 500, 1, 70));
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (const Call& call : calls) {
      for (const int32_t copies : {1, 3}) {
        std::vector<RandomQuery> storage;
        std::vector<Query> queries;
        const size_t count = call.lengths.size() * static_cast<size_t>(copies);
        for (size_t i = 0; i < count; ++i) {
          const int32_t num_tokens = call.lengths[i % call.lengths.size()];
          storage.push_back(MakeQuery(TestSeed() + 1 + i, type, dim, num_tokens));
          if (i % 2 == 1) storage.back().weights = MixedWeights(TestSeed() + i, num_tokens);
        }
        // If there are three copies of each query, every third query of the call scores a list, and the others score
        // all documents.
        for (size_t i = 0; i < count; ++i)
          queries.push_back(storage[i].view(500, copies > 1 && i % 3 == 2 ? &list : nullptr));
        const std::vector<std::vector<Scored>> expected = TopK(*reference, *loaded, queries);
        for (ScoreTile tile : HopperTiles(type, dim)) {
          SCOPED_TRACE(testing::Message() << count << " queries, " << Name(type) << " d " << dim << ", " << Name(tile));
          executor->tuning().tiles = Only(tile);
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->trace().plan.tile, tile);
          if (copies == 1 && TraitsOf(tile).query_tiles() == 4) {
            EXPECT_EQ(executor->trace().plan.num_row_tiles, call.shared) << "in place of " << call.own;
          }
          for (size_t i = 0; i < count; ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Two warpgroups take documents in turn. Each must skip the token tiles of the other one's documents, however many
// these are.
TEST_F(GpuScoreTest, HopperTilesKeepUnequalNeighboursApart) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  std::vector<int64_t> alternating, rare, longest(1200, 300);
  for (int i = 0; i < 500; ++i) alternating.insert(alternating.end(), {10, i % 4 == 0 ? 5000 : 700});
  for (int i = 0; i < 60; ++i) {
    rare.push_back(100);
    rare.insert(rare.end(), 60, 1);
  }
  for (size_t i = 7; i < longest.size(); i += 300) longest[i] = kMaxDocumentTokens;
  for (const std::vector<int64_t>& lengths : {alternating, rare, longest}) {
    for (const auto& [type, dim] :
         {Shape(ScalarType::kF16, 64), Shape(ScalarType::kF16, 128), Shape(ScalarType::kF16, 136),
          Shape(ScalarType::kI8, 64), Shape(ScalarType::kI8, 264)}) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 40);
      executor->tuning().tiles = Only(ScoreTile::kRows32);
      const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(kMaxTopK)})[0];
      for (ScoreTile tile : HopperTiles(type, dim)) {
        SCOPED_TRACE(testing::Message() << lengths.size() << " documents, " << Name(type) << " d " << dim << ", "
                                        << Name(tile));
        executor->tuning().tiles = Only(tile);
        ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(kMaxTopK)})[0]);
        EXPECT_EQ(executor->trace().plan.tile, tile);
      }
    }
  }
}

// Thread blocks that have finished their row tile help with other row tiles. No document may be left out, even if lists
// have very different sizes.
TEST_F(GpuScoreTest, HopperTilesShareOutUnequalLists) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions options;
  options.max_queries = 256;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  std::vector<uint32_t> ordinals(3000);
  for (uint32_t i = 0; i < 3000; ++i) ordinals[i] = (i * 1237u) % 3000u;
  for (const auto& [type, dim] :
       {Shape(ScalarType::kF16, 64), Shape(ScalarType::kF16, 136), Shape(ScalarType::kF16, 264),
        Shape(ScalarType::kI8, 64), Shape(ScalarType::kI8, 264)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, RandomLengths(1, 3000, 1, 90));
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (int num_queries : {2, 3, 131, 132, 133, 200}) {
      std::vector<RandomQuery> storage;
      std::vector<Query> queries;
      for (int i = 0; i < num_queries; ++i) storage.push_back(MakeQuery(TestSeed() + 3 + i, type, dim, 1 + i % 40));
      for (int i = 0; i < num_queries; ++i) {
        Query query = storage[i].view(50);
        query.ordinals = ordinals.data() + i;
        query.num_candidates = i == 0 ? 2900 : 1 + i * 7 % 60;
        queries.push_back(query);
      }
      executor->tuning().tiles = Only(ScoreTile::kRows32);
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      for (ScoreTile tile : HopperTiles(type, dim)) {
        SCOPED_TRACE(testing::Message() << num_queries << " queries, " << Name(type) << " d " << dim << ", "
                                        << Name(tile));
        executor->tuning().tiles = Only(tile);
        for (int run = 0; run < 3; ++run) {
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          for (int i = 0; i < num_queries; ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// A call has whole row tiles (five or more query tiles) and half row tiles (up to four), whose documents two warpgroups
// share. The scores must have the same bits as with the portable kernels, and as in calls with only half row tiles.
TEST_F(GpuScoreTest, HalfRowTilesGiveTheSameBits) {
  constexpr uint32_t kNumDocuments = 700;
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), kNumDocuments, 1, 200);
  for (size_t i = 200; i < 400; ++i) lengths[i] = static_cast<int64_t>(1 + i % 8);
  lengths[3] = 5000;
  ExecutorOptions options;
  options.max_queries = 64;
  options.max_query_tokens = 65536;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), halves = MakeExecutor(options),
                                            portable = MakeExecutor(options);
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  executor->tuning().tiles = Only(ScoreTile::kWide256);
  halves->tuning().tiles = Only(ScoreTile::kWide128);
  portable->tuning().tiles = Only(ScoreTile::kRows32);
  for (cuda::CudaExecutor* const each : {executor.get(), halves.get(), portable.get()}) {
    each->tuning().joins = cuda::Joins::kNever;
  }
  for (const auto& [type, dim] :
       {Shape(ScalarType::kF16, 128), Shape(ScalarType::kBF16, 64), Shape(ScalarType::kI8, 96)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (const int num_queries : {1, 3, 40}) {
      for (const int first : {0, 1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << num_queries << " queries from "
                                        << first);
        std::mt19937 random(TestSeed());
        std::vector<RandomQuery> storage;
        std::vector<std::vector<uint32_t>> lists;
        std::vector<Query> queries;
        for (int i = 0; i < num_queries; ++i) {
          storage.push_back(
              MakeQuery(TestSeed() + 3 + i, type, dim, std::vector<int32_t>{260, 330, 384, 530, 30}[(first + i) % 5]));
          std::vector<uint32_t>& list = lists.emplace_back(std::vector<size_t>{1, 300, 2, 1000}[i % 4]);
          for (uint32_t& ordinal : list) ordinal = random() % kNumDocuments;
        }
        for (int i = 0; i < num_queries; ++i) {
          const std::vector<uint32_t>* const list = i == 0 ? nullptr : &lists[i];
          queries.push_back(
              storage[i].view(static_cast<int32_t>(list == nullptr ? kNumDocuments : list->size()), list));
        }
        const std::vector<std::vector<Scored>> expected = TopK(*portable, *loaded, queries);
        const std::vector<std::vector<Scored>> by_halves = TopK(*halves, *loaded, queries);
        EXPECT_EQ(halves->trace().plan.num_half_tiles, halves->trace().plan.num_row_tiles);
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], by_halves[i]);
        for (const cuda::Ordering ordering : {cuda::Ordering::kNever, cuda::Ordering::kAlways}) {
          executor->tuning().ordering = ordering;
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->trace().plan.tile, ScoreTile::kWide256);
          EXPECT_GT(executor->trace().plan.num_half_tiles, 0);
          EXPECT_LT(executor->trace().plan.num_half_tiles, executor->trace().plan.num_row_tiles);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Candidates are taken longest documents first. This must change no bits, whatever the lengths, the lists and the
// number of row tiles.
TEST_F(GpuScoreTest, OrderedCandidatesGiveTheSameBits) {
  constexpr uint32_t kNumDocuments = 3000;
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), kNumDocuments, 1, 40);
  for (size_t i = 0; i < lengths.size(); i += 17) lengths[i] = 1 << (i / 17 % 11);  // every power of two up to 1,024
  lengths[1234] = 9001;
  ExecutorOptions options;
  options.max_queries = 64;
  options.max_query_tokens = 65536;
  // An executor keeps scores in its memory. Empty queries overwrite them before every call. So a candidate that is left
  // out gets a wrong score, which the test notices.
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), unordered = MakeExecutor(options);
  for (cuda::CudaExecutor* const each : {executor.get(), unordered.get()}) each->tuning().joins = cuda::Joins::kNever;
  unordered->tuning().ordering = cuda::Ordering::kNever;
  executor->tuning().ordering = cuda::Ordering::kAlways;
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::vector<float> zeros(size_t{513} * 768);
  for (const auto& [type, dim] :
       {Shape(ScalarType::kF16, 64), Shape(ScalarType::kBF16, 128), Shape(ScalarType::kI8, 96),
        Shape(ScalarType::kF16, 264), Shape(ScalarType::kI8, 768)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (const int num_queries : {1, 5, 40, 64}) {  // 64 queries have more row tiles than there are thread blocks
      std::mt19937 random(TestSeed());
      std::vector<RandomQuery> storage;
      std::vector<std::vector<uint32_t>> lists;
      std::vector<Query> queries;
      for (int i = 0; i < num_queries; ++i) {
        storage.push_back(MakeQuery(TestSeed() + 3 + i, type, dim,
                                    num_queries == 64 ? 513 : std::vector<int32_t>{100, 513, 7, 33}[i % 4]));
        // The call of five queries has lists of fewer and of more than 4,096 candidates. All its scores are compared.
        const std::vector<size_t> sizes = num_queries == 5 ? std::vector<size_t>{1, 4096, 4097, 400, 9000}
                                                           : std::vector<size_t>{2000, 1, 31, 400, 132};
        std::vector<uint32_t>& list = lists.emplace_back(sizes[i % 5]);
        for (uint32_t& ordinal : list) ordinal = random() % kNumDocuments;
        list.back() = 1234;
      }
      // Query 0 scores all documents, and queries 8 and 9 have the same list. Calls of more than five queries compare
      // only the best 40 scores.
      for (int i = 0; i < num_queries; ++i) {
        const std::vector<uint32_t>* const list = i == 0 ? nullptr : &lists[i == 9 ? 8 : i];
        const size_t count = list == nullptr ? kNumDocuments : list->size();
        queries.push_back(
            storage[i].view(static_cast<int32_t>(num_queries > 5 ? std::min<size_t>(count, 40) : count), list));
      }
      std::vector<Query> empty_queries = queries;
      for (Query& query : empty_queries) query.tokens = zeros.data();
      for (const ScoreTile tile : HopperTiles(type, dim)) {
        if (IsStream(tile)) continue;
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << Name(tile) << ", " << num_queries
                                        << " queries");
        executor->tuning().tiles = Only(tile);
        unordered->tuning().tiles = Only(tile);
        const std::vector<std::vector<Scored>> expected = TopK(*unordered, *loaded, queries);
        EXPECT_FALSE(unordered->trace().ordered);
        for (int run = 0; run < 2; ++run) {
          TopK(*executor, *loaded, empty_queries);
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_TRUE(executor->trace().ordered);
          EXPECT_EQ(executor->trace().plan.tile, tile);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Candidates must be ordered if each thread block has a few documents of unequal length. They must not be ordered if it
// has many documents, only one, or documents of equal length.
TEST_F(GpuScoreTest, CandidatesAreOrderedWhereThatSavesTime) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  executor->tuning().tiles = kTilesOfLongCalls;
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const auto ordered = [&](int num_documents, int64_t usual, int64_t longest) {
    std::vector<int64_t> lengths(static_cast<size_t>(num_documents), usual);
    lengths[5] = longest;
    const std::unique_ptr<Documents> loaded = Load(MakeDocuments(TestSeed(), ScalarType::kF16, 64, lengths));
    TopK(*executor, *loaded, {MakeQuery(TestSeed() + 1, ScalarType::kF16, 64, 189).view(10)});
    return executor->trace().ordered;
  };
  EXPECT_TRUE(ordered(700, 100, 2000));
  EXPECT_FALSE(ordered(130, 100, 2000));  // each multiprocessor has one candidate
  EXPECT_FALSE(ordered(700, 100, 100));
  EXPECT_FALSE(ordered(15000, 100, 101));
}

}  // namespace
}  // namespace maxsim::test
