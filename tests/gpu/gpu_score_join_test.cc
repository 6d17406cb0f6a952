// Tests candidate lists that are joined on the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_executor.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "tests/gpu/gpu_score_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

// Scores overlapping lists. One list occurs twice, one names a document many times, and one shares no document with the
// others.
TEST_F(GpuScoreTest, JoinedListsGiveTheSameBits) {
  constexpr int kNumDocuments = 40000;  // so many that several thread blocks read the bitmap
  ExecutorOptions options;
  options.max_queries = 64;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  const bool hopper = backend().device()->limits.hopper;
  for (const auto& [type, dim] : {Shape(ScalarType::kF16, 64), Shape(ScalarType::kF16, 264),
                                  Shape(ScalarType::kBF16, 128), Shape(ScalarType::kI8, 96)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, RandomLengths(1, kNumDocuments, 1, 30));
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{32, 31, 1, 17, 8, 9}, {64, 33, 5}, {100, 7, 3}}) {
      std::mt19937 random(TestSeed());
      std::vector<RandomQuery> storage;
      std::vector<std::vector<uint32_t>> lists;
      std::vector<Query> queries;
      for (int i = 0; i < 19; ++i) {
        const int32_t length = lengths[i % lengths.size()];
        storage.push_back(MakeQuery(TestSeed() + 3 + i, type, dim, length));
        if (i % 3 == 0) storage.back().weights = MixedWeights(TestSeed() + i, length);
        std::vector<uint32_t>& list = lists.emplace_back();
        // A list has about three quarters of every 31st document.
        for (uint32_t n = 0; n < kNumDocuments; n += 31) {
          if (random() % 4 != 0) list.push_back(n);
        }
        if (i == 3) list.insert(list.begin(), 100, kNumDocuments - 1);
        if (i == 7) list = {5, 5, 7};
        std::shuffle(list.begin(), list.end(), random);
      }
      lists[5] = lists[4];
      for (int i = 0; i < 19; ++i) {
        // Query 11 scores the whole shard, and queries 8 and 9 have the same list.
        queries.push_back(storage[i].view(i == 2 ? 2000 : 50, i == 11 ? nullptr : &lists[i == 9 ? 8 : i]));
      }
      executor->tuning().tiles = ~uint32_t{0};
      executor->tuning().joins = cuda::Joins::kNever;
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      EXPECT_EQ(executor->trace().num_joins, 0);
      ExpectMatchesReference(documents, queries[3], expected[3]);
      executor->tuning().joins = cuda::Joins::kWheneverReadsAreSaved;
      std::vector<ScoreTile> tiles = {ScoreTile::kRows64, ScoreTile::kRows128};
      if (hopper && dim <= 128) tiles.insert(tiles.end(), {ScoreTile::kWide128, ScoreTile::kWide256});
      if (hopper && dim > 128) tiles.insert(tiles.end(), {ScoreTile::kDeep128, ScoreTile::kDeep256});
      for (ScoreTile tile : tiles) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << Name(tile) << ", first query of "
                                        << lengths[0] << " tokens");
        executor->tuning().tiles = Only(tile);
        for (int run = 0; run < 2; ++run) {
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->trace().plan.tile, tile);
          // Joined queries read the union of their lists once per row tile. A query of 64 tokens fills a row tile of
          // kRows64 alone, so joining would save nothing.
          if (tile != ScoreTile::kRows64 || lengths[0] != 64) {
            EXPECT_GT(executor->trace().num_joins, 0);
          }
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Joining lists takes time. So short lists must not be joined, and neither long lists that share few documents.
TEST_F(GpuScoreTest, ListsAreJoinedWhereThatSavesTime) {
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(1, 30000, 60, 60));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 32);
  // Scores eight lists of `size` consecutive documents and returns the number of joins. Each list begins `step`
  // documents after the previous one.
  const auto joins = [&](uint32_t size, uint32_t step) {
    std::vector<std::vector<uint32_t>> lists(8, std::vector<uint32_t>(size));
    std::vector<Query> queries;
    for (uint32_t i = 0; i < 8; ++i) {
      std::iota(lists[i].begin(), lists[i].end(), i * step);
      queries.push_back(query.view(10, &lists[i]));
    }
    TopK(*executor, *loaded, queries);
    return executor->trace().num_joins;
  };
  EXPECT_EQ(joins(100, 1), 0);
  EXPECT_EQ(joins(3000, 3000), 0);
  EXPECT_EQ(joins(3000, 2900), 0);
  EXPECT_EQ(joins(3000, 100), 2);
}

}  // namespace
}  // namespace maxsim::test
