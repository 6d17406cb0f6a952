// Tests the stream kernels, which score short queries: wide rows, and ways to share candidates among thread blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shares.h"
#include "tests/gpu/gpu_score_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

// Teams of thread blocks divide documents among themselves. The query's rows are in registers for one of the
// dimensions, in shared memory for the other. The test is small enough for compute-sanitizer's racecheck.
TEST_F(GpuScoreTest, HopperTeamsOnce) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  executor->tuning().stream = {.teams = 1};
  executor->tuning().tiles = Only(ScoreTile::kStream32);
  const std::vector<uint32_t> ordinals = {5, 0, 3, 2, 4};
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {40, 272}) {
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {3, 64, 129, 1, 1500, 40});
      const std::unique_ptr<Documents> loaded = Load(documents);
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 30);
      Check(*executor, *loaded, documents, query.view(6));
      EXPECT_GT(executor->trace().team_blocks, 1);
      Check(*executor, *loaded, documents, query.view(5, &ordinals));
      EXPECT_GT(executor->trace().team_blocks, 1);
    }
  }
}

// With wide rows, the query is in shared memory. The dimensions are just below and above each limit of the kernel. With
// several row tiles, the kernel changes the query while it continues to read documents. The test is small enough for
// compute-sanitizer's racecheck.
TEST_F(GpuScoreTest, HopperStreamsWideRows) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {129, 136, 144,  160,  192,  200,  256,  257,  264,  272,  384,  400,
                        512, 768, 1000, 1024, 1025, 1032, 1280, 2016, 2032, 2500, 3000, 4064}) {
      if (DeviceRowBytes(type, dim) > 4064) continue;  // such rows leave no room for a ring
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {3, 8, 64, 17, 129, 1, 15, 33, 16, 40, 7});
      const std::unique_ptr<Documents> loaded = Load(documents);
      RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 70);
      query.weights = MixedWeights(TestSeed() + 2, 70);
      const RandomQuery brief = MakeQuery(TestSeed() + 3, type, dim, 5);
      const std::vector<uint32_t> some = {10, 0, 3, 2, 2, 4}, one = {5};
      std::vector<Query> queries = {query.view(11), brief.view(11), brief.view(6, &some), brief.view(1, &one),
                                    query.view(6, &some)};
      executor->tuning().tiles = Only(ScoreTile::kRows32);
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      ExpectMatchesReference(documents, queries[0], expected[0]);
      executor->tuning().tiles = Only(ScoreTile::kStream32);
      const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
      EXPECT_EQ(executor->trace().plan.tile, ScoreTile::kStream32);
      for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
    }
  }
}

// Scores must have the same bits, whether candidates are assigned to thread blocks in advance or claimed by thread
// blocks at run time. The numbers of candidates are near the number of thread blocks, and near the number in one claim.
// Each parameter is a separate test, so that a sanitizer can run each in its own process.
using Shares = std::pair<int32_t, bool>;  // the columns, and whether documents have equal lengths

class GpuSharesTest : public GpuScoreTest, public testing::WithParamInterface<Shares> {};

TEST_P(GpuSharesTest, HopperSharesGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions options;
  options.max_queries = 256;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), reference = MakeExecutor(options);
  reference->tuning().tiles = Only(ScoreTile::kRows32);
  const StreamTuning tunings[] = {{-1, -1, -1}, {0, 1, 1},     {0, 32, 1},   {50, 8, 2},
                                  {99, 3, 2},   {100, -1, -1}, {.teams = 0}, {.teams = 1}};
  const int64_t grid = backend().info().parallelism;
  const auto [dim, equal] = GetParam();
  const RandomDocuments documents = MakeDocuments(
      TestSeed(), ScalarType::kF16, dim, equal ? std::vector<int64_t>(2500, 70) : RandomLengths(5, 2500, 1, 200));
  const std::unique_ptr<Documents> loaded = Load(documents);
  std::vector<uint32_t> ordinals(2500);
  for (uint32_t i = 0; i < 2500; ++i) ordinals[i] = (i * 1237u) % 2500u;
  // Each element is one call: the number of candidates of each of its queries.
  std::vector<std::vector<int64_t>> calls = {{1}, {7}, {grid - 1}, {grid}, {grid + 1}, {1000}, {2500}};
  for (int64_t n : {31, 32, 33}) calls.push_back({grid * n / 2});
  calls.push_back(std::vector<int64_t>(32, 100));
  calls.push_back(std::vector<int64_t>(static_cast<size_t>(grid) + 5, 9));
  calls.push_back({});
  for (int64_t i = 0; i < 200; ++i) calls.back().push_back(1 + i * 37 % 90);
  for (const std::vector<int64_t>& counts : calls) {
    // Two calls of the same shape alternate. If one left wrong state on the device, the other would return wrong
    // results.
    std::vector<RandomQuery> storage[2];
    std::vector<Query> queries[2];
    std::vector<std::vector<Scored>> expected[2];
    for (size_t other : {0, 1}) {
      for (size_t i = 0; i < counts.size(); ++i) {
        storage[other].push_back(
            MakeQuery(TestSeed() + 1 + i + 1000 * other, ScalarType::kF16, dim, 1 + static_cast<int32_t>(i) % 32));
      }
      for (size_t i = 0; i < counts.size(); ++i) {
        queries[other].push_back(storage[other][i].view(60));
        if (counts.size() == 1 && counts[i] == 2500) continue;  // the query scans all documents
        queries[other][i].ordinals = ordinals.data() + i;
        queries[other][i].num_candidates = std::min<int64_t>(counts[i], 2500 - static_cast<int64_t>(i));
      }
      expected[other] = TopK(*reference, *loaded, queries[other]);
    }
    size_t turn = 0;
    for (ScoreTile tile : HopperTiles(ScalarType::kF16, dim)) {
      executor->tuning().tiles = Only(tile);
      // The tuning affects only the stream kernels, so other kernels run with one tuning only.
      for (const StreamTuning& tuning : absl::MakeConstSpan(tunings).first(IsStream(tile) ? std::size(tunings) : 1)) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", " << Name(tile) << ", " << counts.size()
                                        << " queries, the first of " << counts[0] << ", " << tuning.assigned_percent
                                        << " % assigned, claims of " << tuning.coarse << ", teams " << tuning.teams);
        executor->tuning().stream = tuning;
        const size_t other = turn++ % 2;
        const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries[other]);
        EXPECT_EQ(executor->trace().plan.tile, tile);
        for (size_t i = 0; i < counts.size(); ++i) ExpectSameBits(expected[other][i], results[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, GpuSharesTest,
                         testing::Values(Shares(48, false), Shares(48, true), Shares(200, false), Shares(200, true)),
                         [](const testing::TestParamInfo<Shares>& shares) {
                           return "d" + std::to_string(shares.param.first) +
                                  (shares.param.second ? "_equal" : "_ragged");
                         });

// The lengths differ so much that thread blocks claim half of the candidates at run time. Query rows are in registers
// or in shared memory. A call has one list, or several lists, which belong to different row tiles. The test is small
// enough for compute-sanitizer's racecheck.
TEST_F(GpuScoreTest, HopperClaimsOfUnequalDocumentsGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions options;
  options.max_queries = 256;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  const int64_t grid = backend().info().parallelism;
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), 3000, 1, 20);
  for (size_t i = 0; i < lengths.size(); i += 29) lengths[i] = 300;
  std::vector<uint32_t> ordinals(lengths.size());
  for (uint32_t i = 0; i < ordinals.size(); ++i) ordinals[i] = (i * 1237u) % static_cast<uint32_t>(ordinals.size());
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {128, 272, 768}) {
      // These lengths spread over 138 tokens, or 64 KB if a row has 475 bytes. From 64 KB on, the plan assigns only
      // half of the candidates in advance, and blocks claim the others. With a tuning, blocks claim candidates at every
      // dimension.
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      std::vector<std::vector<int64_t>> calls = {{grid * 7 - 1}, {grid * 7}, {2500}};
      calls.push_back(std::vector<int64_t>(32, 100));
      calls.push_back(std::vector<int64_t>(static_cast<size_t>(grid), 9));
      for (const std::vector<int64_t>& counts : calls) {
        std::vector<RandomQuery> storage;
        for (size_t i = 0; i < counts.size(); ++i) {
          storage.push_back(
              MakeQuery(TestSeed() + 1 + static_cast<int>(i), type, dim, 1 + static_cast<int32_t>(i) % 32));
        }
        std::vector<Query> queries;
        for (size_t i = 0; i < counts.size(); ++i) {
          queries.push_back(storage[i].view(60));
          queries[i].ordinals = ordinals.data() + i;
          queries[i].num_candidates = std::min<int64_t>(counts[i], static_cast<int64_t>(ordinals.size() - i));
        }
        executor->tuning().tiles = Only(ScoreTile::kRows32);
        const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
        executor->tuning().tiles = Only(ScoreTile::kStream32);
        for (const StreamTuning& tuning : {StreamTuning{.teams = 0}, StreamTuning{50, 1, 1}, StreamTuning{0, 3, 2}}) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << " d " << dim << ", " << counts.size() << " queries, the first of " << counts[0]
                       << ", " << tuning.assigned_percent << " % assigned");
          executor->tuning().stream = tuning;
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->trace().plan.tile, ScoreTile::kStream32);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
          if (counts.front() < 2500 || executor->trace().plan.row_bytes < 475) continue;
          const auto& shape = static_cast<const cuda::CudaDocuments&>(*loaded);
          const int64_t mean_tokens = loaded->num_tokens() / loaded->num_documents();
          EXPECT_FALSE(
              PlanStreamShares(executor->trace().plan, {2500, 2500, mean_tokens, shape.spread_tokens()}, tuning)
                  .all_assigned());
        }
      }
    }
  }
}

// Several thread blocks (a team) score parts of the same document. A few documents are long and the others short. So a
// team divides one document into many parts, and other documents end together with a thread block's part. A call has
// one list or several. Query rows are in registers or in shared memory. Each storage type is a separate test.
class GpuTeamsTest : public GpuScoreTest, public testing::WithParamInterface<ScalarType> {};

TEST_P(GpuTeamsTest, HopperTeamsGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const ScalarType type = GetParam();
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(), reference = MakeExecutor();
  executor->tuning().stream = {.teams = 1};
  executor->tuning().tiles = Only(ScoreTile::kStream32);
  reference->tuning().tiles = Only(ScoreTile::kRows32);
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), 1300, 1, 40);
  for (size_t i = 0; i < lengths.size(); i += 97) lengths[i] = 700;
  lengths[5] = 9000;
  std::vector<uint32_t> ordinals(lengths.size());
  for (uint32_t i = 0; i < ordinals.size(); ++i) ordinals[i] = (i * 237u + 5) % static_cast<uint32_t>(ordinals.size());
  for (int32_t dim : {40, 96, 128, 192, 256, 768}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{2, 2},
                                               {33},
                                               {64},
                                               {65},
                                               {1300},
                                               std::vector<int64_t>(7, 97),
                                               std::vector<int64_t>(3, 300)}) {
      // The second call overwrites the scores and maxima of the first. So the third call, which equals the first,
      // cannot succeed by reading old results.
      for (size_t call : {0, 1, 0}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", call " << call << " of " << counts.size()
                                        << " queries of " << counts[0]);
        std::vector<RandomQuery> storage;
        for (size_t i = 0; i < counts.size(); ++i) {
          storage.push_back(MakeQuery(TestSeed() + 1 + i + 100 * call, type, dim, 32 - static_cast<int32_t>(i)));
        }
        std::vector<Query> queries;
        for (size_t i = 0; i < counts.size(); ++i) {
          queries.push_back(storage[i].view(static_cast<int32_t>(counts[i])));
          if (counts[i] == 1300) continue;  // the query scans all documents
          queries[i].ordinals = ordinals.data() + i + 11 * call;
          queries[i].num_candidates = counts[i];
        }
        const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
        EXPECT_EQ(executor->trace().plan.tile, ScoreTile::kStream32);
        EXPECT_GT(executor->trace().team_blocks, 1);
        const std::vector<std::vector<Scored>> expected = TopK(*reference, *loaded, queries);
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Teams, GpuTeamsTest, testing::ValuesIn(kHopperTypes),
                         [](const testing::TestParamInfo<ScalarType>& type) { return std::string(Name(type.param)); });

// The longest document has as many token tiles as a document can have.
TEST_F(GpuScoreTest, HopperTeamsCutTheLongestDocument) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), reference = MakeExecutor(options);
  executor->tuning().tiles = Only(ScoreTile::kStream32);
  reference->tuning().tiles = Only(ScoreTile::kRows32);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kI8, 2900, {5, kMaxDocumentTokens, 9});
  const std::unique_ptr<Documents> loaded = Load(documents);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kI8, 2900, 32);
  const std::vector<Scored> result = TopK(*executor, *loaded, {query.view(3)})[0];
  EXPECT_EQ(executor->trace().plan.tile_tokens, 8);
  EXPECT_GT(executor->trace().team_blocks, 1);
  ExpectSameBits(TopK(*reference, *loaded, {query.view(3)})[0], result);
}

// The query is so long that the memory for partial sums holds only 2,048 candidates. So the call takes several passes,
// and teams of thread blocks score the 33 candidates of the last pass.
TEST_F(GpuScoreTest, HopperTeamsOfALaterPassGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions small;
  small.max_queries = 1;
  small.max_query_tokens = 2048;
  small.max_candidates = 2200;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(small), reference = MakeExecutor();
  executor->tuning().stream = {.teams = 1};
  executor->tuning().tiles = Only(ScoreTile::kStream32);
  reference->tuning().tiles = Only(ScoreTile::kRows32);
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), 2081, 1, 3);
  for (size_t i = 2050; i < lengths.size(); i += 7) lengths[i] = 400;
  for (int32_t dim : {40, 200}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, dim, 2048);
    const std::vector<Scored> result = TopK(*executor, *loaded, {query.view(2081)})[0];
    EXPECT_EQ(executor->trace().team_blocks, 2) << "of the second pass";
    ExpectSameBits(TopK(*reference, *loaded, {query.view(2081)})[0], result);
  }
}

// The memory for partial sums holds only some of the candidates, so the call takes several passes. Some lists end
// before the last pass.
TEST_F(GpuScoreTest, HopperStreamPassesWithExhaustedRowTilesGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  ExecutorOptions small;
  small.max_queries = 4;
  small.max_query_tokens = 2 * kMaxQueryTokens + 100;
  small.max_candidates = 80000;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(small);
  const std::unique_ptr<cuda::CudaExecutor> roomy = MakeExecutor();
  for (int32_t dim : {8, 136}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, dim, RandomLengths(2, 20000, 1, 3));
    const std::unique_ptr<Documents> loaded = Load(documents);
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, dim, kMaxQueryTokens);
    const RandomQuery brief = MakeQuery(TestSeed() + 2, ScalarType::kF16, dim, 40);
    std::vector<uint32_t> ordinals(3000);
    for (uint32_t i = 0; i < 3000; ++i) ordinals[i] = (i * 7919u) % 20000u;
    const std::vector<Query> queries = {brief.view(kMaxTopK, &ordinals), query.view(kMaxTopK), brief.view(kMaxTopK),
                                        query.view(kMaxTopK, &ordinals)};
    roomy->tuning().tiles = Only(ScoreTile::kRows32);
    executor->tuning().tiles = Only(ScoreTile::kStream32);
    std::vector<std::vector<Scored>> expected;
    for (const Query& each : queries) expected.push_back(TopK(*roomy, *loaded, {each})[0]);
    const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
    EXPECT_EQ(executor->trace().plan.tile, ScoreTile::kStream32);
    for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
  }
}

}  // namespace
}  // namespace maxsim::test
