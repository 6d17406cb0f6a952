// Scores on the device where its own tiling has edges: rows, tokens, chunks and steps, each one short, exact and one
// over.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "absl/types/span.h"
#include "kernels/cuda/score/hopper_wide/config.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/shares.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract_runner.h"

namespace maxsim::test {
namespace {

constexpr ScalarType kTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8};

// The Hopper tilings for rows of `dim` columns: of several blocks of rows, and stream32 beside the wide ones (over
// wider rows it has tests of its own).
std::vector<ScoreTile> HopperTiles(ScalarType type, int32_t dim) {
  if (DeviceRowBytes(type, dim) <= kWideMaxRowBytes) {
    return {ScoreTile::kWide128, ScoreTile::kWide256, ScoreTile::kStream32};
  }
  if (DeviceRowBytes(type, dim) > kDeepMaxRowBytes) return {};
  return {ScoreTile::kDeep128, ScoreTile::kDeep256};
}

constexpr uint32_t Only(ScoreTile tile) { return 1u << static_cast<uint32_t>(tile); }

using Shape = std::pair<ScalarType, int32_t>;  // storage and columns

// Those that the Hopper tiles score.
constexpr ScalarType kHopperTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

class GpuScoreTest : public GpuTest {
 protected:
  // Every candidate's score of one query, checked against FP64.
  void Check(Executor& executor, const Documents& loaded, const RandomDocuments& documents, const Query& query) {
    ExpectMatchesReference(documents, query, TopK(executor, loaded, {query})[0]);
  }

  // A long query, a list and a short query on each of Hopper's tiles, over six documents.
  void CheckHopperTiles(int32_t dim, const std::vector<int64_t>& lengths) {
    const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
    for (ScalarType type : kHopperTypes) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 300);
      const std::vector<uint32_t> ordinals = {5, 0, 3, 2, 2};
      for (ScoreTile tile : HopperTiles(type, dim)) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << Name(tile));
        executor->AllowTiles(Only(tile));
        Check(*executor, *loaded, documents, query.view(6));
        EXPECT_EQ(executor->last_plan().tile, tile);
        Query listed = query.view(5);
        listed.ordinals = ordinals.data();
        listed.num_candidates = static_cast<int64_t>(ordinals.size());
        EXPECT_EQ(TopK(*executor, *loaded, {listed, query.view(1)}).front().size(), 5u);
      }
    }
  }
};

// One small call for every kernel there is. Also what the sanitizers are run on.
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
          executor->AllowTiles(Only(tile));
          for (int32_t teams : {0, 1}) {
            if (teams > 0 && !IsStream(tile)) continue;
            executor->TuneStream({.teams = teams});
            Check(*executor, *loaded, documents, query.view(3));
          }
          kernels.emplace(executor->last_plan().tile, executor->last_plan().query_resident);
        }
        const uint32_t ordinal = 2;
        std::vector<TokenMatch> matches(static_cast<size_t>(num_tokens));
        EXPECT_TRUE(executor->Align(*loaded, query.view(1), {&ordinal, 1}, absl::MakeSpan(matches)).ok());
      }
    }
  }
  // All but the narrow streamed one, which does not exist.
  EXPECT_EQ(kernels.size(), backend().device()->limits.hopper ? 14u : 7u);
}

// The Hopper kernels alone, small enough for racecheck: several tiles a document, several row tiles, lists.
TEST_F(GpuScoreTest, HopperTilesOnce) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  for (int32_t dim : {40, 96, 128}) CheckHopperTiles(dim, {3, 64, 129, 1, 3000, 40});
}

TEST_F(GpuScoreTest, DeepTilesOnce) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  for (int32_t dim : {136, 264, 272}) CheckHopperTiles(dim, {3, 64, 129, 1, 600, 193});
}

// Documents that thread blocks in teams cut, small enough for racecheck: rows in registers and in shared memory.
TEST_F(GpuScoreTest, HopperTeamsOnce) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  executor->TuneStream({.teams = 1});
  executor->AllowTiles(Only(ScoreTile::kStream32));
  const std::vector<uint32_t> ordinals = {5, 0, 3, 2, 4};
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {40, 272}) {
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {3, 64, 129, 1, 1500, 40});
      const std::unique_ptr<Documents> loaded = Load(documents);
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 30);
      Check(*executor, *loaded, documents, query.view(6));
      EXPECT_GT(executor->last_team_blocks(), 1);
      Check(*executor, *loaded, documents, query.view(5, &ordinals));
      EXPECT_GT(executor->last_team_blocks(), 1);
    }
  }
}

// Wide rows on Hopper, whose query lies in shared memory: widths round every change of the ring, of the last step, of
// the banks and of the pieces, small enough for racecheck. Several row tiles, so that the query changes under the ring.
TEST_F(GpuScoreTest, HopperStreamsWideRows) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {129, 136, 144,  160,  192,  200,  256,  257,  264,  272,  384,  400,
                        512, 768, 1000, 1024, 1025, 1032, 1280, 2016, 2032, 2500, 3000, 4064}) {
      if (DeviceRowBytes(type, dim) > 4064) continue;  // there is no room for a ring
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {3, 8, 64, 17, 129, 1, 15, 33, 16, 40, 7});
      const std::unique_ptr<Documents> loaded = Load(documents);
      RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 70);
      query.weights = MixedWeights(TestSeed() + 2, 70);
      const RandomQuery brief = MakeQuery(TestSeed() + 3, type, dim, 5);
      const std::vector<uint32_t> some = {10, 0, 3, 2, 2, 4}, one = {5};
      std::vector<Query> queries = {query.view(11), brief.view(11), brief.view(6, &some), brief.view(1, &one),
                                    query.view(6, &some)};
      executor->AllowTiles(Only(ScoreTile::kRows32));
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      ExpectMatchesReference(documents, queries[0], expected[0]);
      executor->AllowTiles(Only(ScoreTile::kStream32));
      const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
      EXPECT_EQ(executor->last_plan().tile, ScoreTile::kStream32);
      for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
    }
  }
}

// However the candidates are dealt and claimed: totals round the grid and the sizes of a claim, lists of one size and
// of many, equal documents and ragged ones. A test for each kind, so that a sanitizer can have a process for each.
using Shares = std::pair<int32_t, bool>;  // columns, documents of equal length

class GpuSharesTest : public GpuScoreTest, public testing::WithParamInterface<Shares> {};

TEST_P(GpuSharesTest, HopperSharesGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  ExecutorOptions options;
  options.max_queries = 256;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), reference = MakeExecutor(options);
  reference->AllowTiles(Only(ScoreTile::kRows32));
  const StreamTuning tunings[] = {{-1, -1, -1}, {0, 1, 1},     {0, 32, 1},   {50, 8, 2},
                                  {99, 3, 2},   {100, -1, -1}, {.teams = 0}, {.teams = 1}};
  const int64_t grid = backend().info().parallelism;
  const auto [dim, equal] = GetParam();
  const RandomDocuments documents = MakeDocuments(
      TestSeed(), ScalarType::kF16, dim, equal ? std::vector<int64_t>(2500, 70) : RandomLengths(5, 2500, 1, 200));
  const std::unique_ptr<Documents> loaded = Load(documents);
  std::vector<uint32_t> ordinals(2500);
  for (uint32_t i = 0; i < 2500; ++i) ordinals[i] = (i * 1237u) % 2500u;
  // Candidates of each query.
  std::vector<std::vector<int64_t>> calls = {{1}, {7}, {grid - 1}, {grid}, {grid + 1}, {1000}, {2500}};
  for (int64_t n : {31, 32, 33}) calls.push_back({grid * n / 2});
  calls.push_back(std::vector<int64_t>(32, 100));
  calls.push_back(std::vector<int64_t>(static_cast<size_t>(grid) + 5, 9));
  calls.push_back({});
  for (int64_t i = 0; i < 200; ++i) calls.back().push_back(1 + i * 37 % 90);
  for (const std::vector<int64_t>& counts : calls) {
    // Two calls of the same shape by turns, so that what one leaves behind is wrong for the next.
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
        if (counts.size() == 1 && counts[i] == 2500) continue;  // all documents
        queries[other][i].ordinals = ordinals.data() + i;
        queries[other][i].num_candidates = std::min<int64_t>(counts[i], 2500 - static_cast<int64_t>(i));
      }
      expected[other] = TopK(*reference, *loaded, queries[other]);
    }
    size_t turn = 0;
    for (ScoreTile tile : HopperTiles(ScalarType::kF16, dim)) {
      executor->AllowTiles(Only(tile));
      // The other kernels' claims follow from the totals.
      for (const StreamTuning& tuning : absl::MakeConstSpan(tunings).first(IsStream(tile) ? std::size(tunings) : 1)) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", " << Name(tile) << ", " << counts.size()
                                        << " queries, the first of " << counts[0] << ", " << tuning.dealt_percent
                                        << " % dealt, claims of " << tuning.coarse << ", teams " << tuning.teams);
        executor->TuneStream(tuning);
        const size_t other = turn++ % 2;
        const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries[other]);
        EXPECT_EQ(executor->last_plan().tile, tile);
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

// Lengths so far apart that half of the candidates are claimed, over rows in registers and in shared memory: one list,
// and lists whose row tiles change under the ring. Small enough for racecheck.
TEST_F(GpuScoreTest, HopperClaimsOfUnequalDocumentsGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
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
      // The spread of these lengths is 138 tokens: 64 KB, from which on half is left open, where rows have 475 bytes or
      // more. The tuned runs claim at every width.
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
        executor->AllowTiles(Only(ScoreTile::kRows32));
        const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
        executor->AllowTiles(Only(ScoreTile::kStream32));
        for (const StreamTuning& tuning : {StreamTuning{.teams = 0}, StreamTuning{50, 1, 1}, StreamTuning{0, 3, 2}}) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << " d " << dim << ", " << counts.size() << " queries, the first of " << counts[0]
                       << ", " << tuning.dealt_percent << " % dealt");
          executor->TuneStream(tuning);
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->last_plan().tile, ScoreTile::kStream32);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
          if (counts.front() < 2500 || executor->last_plan().row_bytes < 475) continue;
          const auto& shape = static_cast<const cuda::CudaDocuments&>(*loaded);
          const int64_t mean_tokens = loaded->num_tokens() / loaded->num_documents();
          EXPECT_FALSE(PlanStreamShares(executor->last_plan(), {2500, 2500, mean_tokens, shape.spread_tokens()}, tuning)
                           .all_dealt());
        }
      }
    }
  }
}

// Documents that several thread blocks have tiles of: a few long ones among short ones, so that a team cuts one of them
// into many parts and others end where a block does; one list and lists that teams have parts of two of, rows in
// registers and in shared memory. A test for each storage type.
class GpuTeamsTest : public GpuScoreTest, public testing::WithParamInterface<ScalarType> {};

TEST_P(GpuTeamsTest, HopperTeamsGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  const ScalarType type = GetParam();
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(), reference = MakeExecutor();
  executor->TuneStream({.teams = 1});
  executor->AllowTiles(Only(ScoreTile::kStream32));
  reference->AllowTiles(Only(ScoreTile::kRows32));
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
      // The second call leaves other scores and maxima where the third one looks for the first one's.
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
          if (counts[i] == 1300) continue;  // all documents
          queries[i].ordinals = ordinals.data() + i + 11 * call;
          queries[i].num_candidates = counts[i];
        }
        const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
        EXPECT_EQ(executor->last_plan().tile, ScoreTile::kStream32);
        EXPECT_GT(executor->last_team_blocks(), 1);
        const std::vector<std::vector<Scored>> expected = TopK(*reference, *loaded, queries);
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Teams, GpuTeamsTest, testing::ValuesIn(kHopperTypes),
                         [](const testing::TestParamInfo<ScalarType>& type) { return std::string(Name(type.param)); });

// As many tiles as a document can have.
TEST_F(GpuScoreTest, HopperTeamsCutTheLongestDocument) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  ExecutorOptions options;
  options.max_dim = kMaxDim;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), reference = MakeExecutor(options);
  executor->AllowTiles(Only(ScoreTile::kStream32));
  reference->AllowTiles(Only(ScoreTile::kRows32));
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kI8, 2900, {5, kMaxDocumentTokens, 9});
  const std::unique_ptr<Documents> loaded = Load(documents);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kI8, 2900, 32);
  const std::vector<Scored> result = TopK(*executor, *loaded, {query.view(3)})[0];
  EXPECT_EQ(executor->last_plan().tile_tokens, 8);
  EXPECT_GT(executor->last_team_blocks(), 1);
  ExpectSameBits(TopK(*reference, *loaded, {query.view(3)})[0], result);
}

// A long query whose partial sums have room for 2,048 candidates: teams score the 33 of the last pass.
TEST_F(GpuScoreTest, HopperTeamsOfALaterPassGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  ExecutorOptions small;
  small.max_queries = 1;
  small.max_query_tokens = 2048;
  small.max_candidates = 2200;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(small), reference = MakeExecutor();
  executor->TuneStream({.teams = 1});
  executor->AllowTiles(Only(ScoreTile::kStream32));
  reference->AllowTiles(Only(ScoreTile::kRows32));
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), 2081, 1, 3);
  for (size_t i = 2050; i < lengths.size(); i += 7) lengths[i] = 400;
  for (int32_t dim : {40, 200}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, dim, 2048);
    const std::vector<Scored> result = TopK(*executor, *loaded, {query.view(2081)})[0];
    EXPECT_EQ(executor->last_team_blocks(), 2) << "of the second pass";
    ExpectSameBits(TopK(*reference, *loaded, {query.view(2081)})[0], result);
  }
}

// Partial sums with room for part of the candidates only, and lists that end before the last pass.
TEST_F(GpuScoreTest, HopperStreamPassesWithExhaustedRowTilesGiveTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
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
    roomy->AllowTiles(Only(ScoreTile::kRows32));
    executor->AllowTiles(Only(ScoreTile::kStream32));
    std::vector<std::vector<Scored>> expected;
    for (const Query& each : queries) expected.push_back(TopK(*roomy, *loaded, {each})[0]);
    const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
    EXPECT_EQ(executor->last_plan().tile, ScoreTile::kStream32);
    for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
  }
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
          executor->AllowTiles(tiles);
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
          executor->AllowTiles(tiles);
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

// More candidates than the table of a thread block holds, several times over, from one thread block each.
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

// Tiles in which many documents end, up to the most that may, with and without one that goes on, and tiles that are not
// full. Every score is compared.
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
        // Blocks that four queries share, and two; and such as have rows for more.
        std::vector<RandomQuery> others;
        std::vector<Query> queries = {query.view(count)};
        for (int32_t tokens : {3, 7, 8, 6, 2, 9, 16, 12}) {
          others.push_back(MakeQuery(TestSeed() + 4 + tokens, type, dim, tokens));
        }
        for (const RandomQuery& other : others) queries.push_back(other.view(count));
        executor->AllowTiles(Only(ScoreTile::kRows32));
        const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
        for (ScoreTile tile : kAllScoreTiles) {
          if (!MayShareBlocks(tile)) continue;
          executor->AllowTiles(Only(tile));
          const std::vector<std::vector<Scored>> actual = TopK(*executor, *loaded, queries);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
        }
      }
    }
  }
}

// The tilings differ in rows, tokens, chunks and instructions; all must give a query's document the same bits.
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
        executor->AllowTiles(Only(ScoreTile::kRows32));
        const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(400)})[0];
        for (ScoreTile tile : kAllScoreTiles) {
          executor->AllowTiles(Only(tile));
          // Alone, and stacked with more and more others, so that its blocks fall into other rows of other tiles.
          for (int others : {0, 1, 2, 7}) {
            std::vector<RandomQuery> storage;
            for (int i = 0; i < others; ++i) storage.push_back(MakeQuery(TestSeed() + 10 + i, type, dim, 10 + 13 * i));
            std::vector<Query> queries;
            for (const RandomQuery& other : storage) queries.push_back(other.view(5));
            queries.push_back(query.view(400));
            SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", tokens " << num_tokens << ", others "
                                            << others << ", " << Name(tile));
            ExpectSameBits(expected, TopK(*executor, *loaded, queries).back());
            seen.insert(executor->last_plan().tile);
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

// A document may begin in any group of a token tile, end after any of its tokens, and go on in the next one; a stream
// tile's last tokens are clamped.
TEST_F(GpuScoreTest, HopperTilesMatchFp64AtEveryLength) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 272; ++n) lengths.push_back(n);
  for (int64_t n : {383, 384, 385, 511, 512, 513, 1000}) lengths.push_back(n);
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {8, 48, 64, 96, 128, 250}) {
      if (DeviceRowBytes(type, dim) > kWideMaxRowBytes) continue;  // the deep tiles have a test of their own
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (ScoreTile tile : HopperTiles(type, dim)) {
        executor->AllowTiles(Only(tile));
        for (int32_t num_tokens : {1, 32, 100, 128, 250, 256, 700}) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << " d " << dim << ", query tokens " << num_tokens << ", " << Name(tile));
          const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
          Check(*executor, *loaded, documents, query.view(kMaxTopK));
          EXPECT_EQ(executor->last_plan().tile, tile);
        }
      }
    }
  }
}

// Deep tiles: documents of many lengths, and stacks of rows round those
// of one and two row tiles, at widths whose query tile stays (up to 256 and 320) and at others, whole chunks and not.
TEST_F(GpuScoreTest, DeepTilesGiveTheSameBitsAtEveryLength) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  ExecutorOptions options;
  options.max_dim = 2048;
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 200; ++n) lengths.push_back(n);
  for (int64_t n : {255, 256, 257, 300, 383, 384, 385, 511, 512, 513, 575, 576, 577, 1000}) lengths.push_back(n);
  for (ScalarType type : kHopperTypes) {
    for (int32_t dim : {129, 136, 192, 256, 257, 264, 320, 328, 512, 640, 768, 1000, 1024, 1025, 2048}) {
      if (DeviceRowBytes(type, dim) <= kWideMaxRowBytes || HopperTiles(type, dim).empty()) continue;
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      for (int32_t num_tokens : {1, 33, 64, 128, 129, 255, 256, 257, 1024}) {
        RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, num_tokens);
        query.weights = MixedWeights(TestSeed() + 2, num_tokens);
        executor->AllowTiles(Only(num_tokens > 64 ? ScoreTile::kRows128 : ScoreTile::kRows64));
        const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(kMaxTopK)})[0];
        for (ScoreTile tile : HopperTiles(type, dim)) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << " d " << dim << ", query tokens " << num_tokens << ", " << Name(tile));
          executor->AllowTiles(Only(tile));
          ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(kMaxTopK)})[0]);
          EXPECT_EQ(executor->last_plan().tile, tile);
        }
      }
    }
  }
}

// Queries of up to 16 tokens, and what is left of longer ones, share blocks of rows with others over the same
// documents, weights or not, and the last block has room left. Lists and the whole set are groups of their own.
TEST_F(GpuScoreTest, QueriesThatShareBlocksGetTheSameBits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(), reference = MakeExecutor();
  reference->AllowTiles(Only(ScoreTile::kRows32));
  std::vector<uint32_t> list(300);
  for (uint32_t i = 0; i < 300; ++i) list[i] = (i * 37u) % 500u;
  // Lengths of queries, row tiles of 128 rows that they take with blocks of their own, and that they take.
  struct Call {
    std::vector<int32_t> lengths;
    int64_t own, shared;
  };
  std::vector<Call> calls = {
      {{8, 1, 7, 3, 8, 5, 8, 2, 4}, 3, 1},
      {{16, 9, 12, 16, 11, 10, 9, 15, 13}, 3, 2},  // five blocks, of which the last has a place left
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
        // Three times as many, a third of them over a list.
        for (size_t i = 0; i < count; ++i)
          queries.push_back(storage[i].view(500, copies > 1 && i % 3 == 2 ? &list : nullptr));
        const std::vector<std::vector<Scored>> expected = TopK(*reference, *loaded, queries);
        for (ScoreTile tile : HopperTiles(type, dim)) {
          SCOPED_TRACE(testing::Message() << count << " queries, " << Name(type) << " d " << dim << ", " << Name(tile));
          executor->AllowTiles(Only(tile));
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->last_plan().tile, tile);
          if (copies == 1 && TraitsOf(tile).blocks() == 4) {
            EXPECT_EQ(executor->last_plan().num_row_tiles, call.shared) << "in place of " << call.own;
          }
          for (size_t i = 0; i < count; ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// The longest query and the longest documents, several of them side by side with short ones.
TEST_F(GpuScoreTest, DeepTilesGiveTheSameBitsAtTheLimits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  std::vector<int64_t> lengths(40, 100);
  for (size_t i : {3, 4, 20}) lengths[i] = kMaxDocumentTokens;
  for (int32_t dim : {136, 768}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (int32_t num_tokens : {40, 256, kMaxQueryTokens}) {
      const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, dim, num_tokens);
      executor->AllowTiles(Only(ScoreTile::kRows128));
      const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(40)})[0];
      for (ScoreTile tile : HopperTiles(ScalarType::kF16, dim)) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", query tokens " << num_tokens << ", " << Name(tile));
        executor->AllowTiles(Only(tile));
        ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(40)})[0]);
      }
    }
  }
}

// Where documents go to two warpgroups in turn, one of them may skip any number of the other's tiles between two
// documents of its own.
TEST_F(GpuScoreTest, HopperTilesKeepUnequalNeighboursApart) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
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
      executor->AllowTiles(Only(ScoreTile::kRows32));
      const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(kMaxTopK)})[0];
      for (ScoreTile tile : HopperTiles(type, dim)) {
        SCOPED_TRACE(testing::Message() << lengths.size() << " documents, " << Name(type) << " d " << dim << ", "
                                        << Name(tile));
        executor->AllowTiles(Only(tile));
        ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(kMaxTopK)})[0]);
        EXPECT_EQ(executor->last_plan().tile, tile);
      }
    }
  }
}

// Blocks that are done with their own row tile help with the others'; lists of very different sizes leave nothing out.
TEST_F(GpuScoreTest, HopperTilesShareOutUnequalLists) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "not a Hopper GPU";
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
      executor->AllowTiles(Only(ScoreTile::kRows32));
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      for (ScoreTile tile : HopperTiles(type, dim)) {
        SCOPED_TRACE(testing::Message() << num_queries << " queries, " << Name(type) << " d " << dim << ", "
                                        << Name(tile));
        executor->AllowTiles(Only(tile));
        for (int run = 0; run < 3; ++run) {
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          for (int i = 0; i < num_queries; ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Lists that overlap, among them the same one twice, one with documents several times, and one that is like no other.
TEST_F(GpuScoreTest, JoinedListsGiveTheSameBits) {
  constexpr int kNumDocuments = 40000;  // more than a thread block reads off the bitmap
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
        // Every 31st document, and those in turn of which a list has three quarters.
        for (uint32_t n = 0; n < kNumDocuments; n += 31) {
          if (random() % 4 != 0) list.push_back(n);
        }
        if (i == 3) list.insert(list.begin(), 100, kNumDocuments - 1);
        if (i == 7) list = {5, 5, 7};
        std::shuffle(list.begin(), list.end(), random);
      }
      lists[5] = lists[4];
      for (int i = 0; i < 19; ++i) {
        // One takes the whole shard, and two have a list between them.
        queries.push_back(storage[i].view(i == 2 ? 2000 : 50, i == 11 ? nullptr : &lists[i == 9 ? 8 : i]));
      }
      executor->AllowTiles(~uint32_t{0});
      executor->SetJoins(cuda::Joins::kNever);
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      EXPECT_EQ(executor->last_joins(), 0);
      ExpectMatchesReference(documents, queries[3], expected[3]);
      executor->SetJoins(cuda::Joins::kWheneverReadsAreSaved);
      std::vector<ScoreTile> tiles = {ScoreTile::kRows64, ScoreTile::kRows128};
      if (hopper && dim <= 128) tiles.insert(tiles.end(), {ScoreTile::kWide128, ScoreTile::kWide256});
      if (hopper && dim > 128) tiles.insert(tiles.end(), {ScoreTile::kDeep128, ScoreTile::kDeep256});
      for (ScoreTile tile : tiles) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << Name(tile) << ", first query of "
                                        << lengths[0] << " tokens");
        executor->AllowTiles(Only(tile));
        for (int run = 0; run < 2; ++run) {
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->last_plan().tile, tile);
          // Two blocks a row tile: queries of 64 tokens have one each, and would read a union as often as their lists.
          if (tile != ScoreTile::kRows64 || lengths[0] != 64) {
            EXPECT_GT(executor->last_joins(), 0);
          }
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Joining takes its time: short lists stay apart, and so do long ones that have little in common.
TEST_F(GpuScoreTest, ListsAreJoinedWhereThatSavesTime) {
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(1, 30000, 60, 60));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 32);
  // Eight lists of `size` documents, each beginning `step` further.
  const auto joins = [&](uint32_t size, uint32_t step) {
    std::vector<std::vector<uint32_t>> lists(8, std::vector<uint32_t>(size));
    std::vector<Query> queries;
    for (uint32_t i = 0; i < 8; ++i) {
      std::iota(lists[i].begin(), lists[i].end(), i * step);
      queries.push_back(query.view(10, &lists[i]));
    }
    TopK(*executor, *loaded, queries);
    return executor->last_joins();
  };
  EXPECT_EQ(joins(100, 1), 0);
  EXPECT_EQ(joins(3000, 3000), 0);
  EXPECT_EQ(joins(3000, 2900), 0);
  EXPECT_EQ(joins(3000, 100), 2);
}

// Row tiles of five blocks and more beside those of up to four, which the two warpgroups share out by documents: as on
// portable tiles, and as in calls that have the latter alone.
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
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "the device is no Hopper GPU";
  executor->AllowTiles(Only(ScoreTile::kWide256));
  halves->AllowTiles(Only(ScoreTile::kWide128));
  portable->AllowTiles(Only(ScoreTile::kRows32));
  for (cuda::CudaExecutor* const each : {executor.get(), halves.get(), portable.get()}) {
    each->SetJoins(cuda::Joins::kNever);
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
        EXPECT_EQ(halves->last_plan().num_half_tiles, halves->last_plan().num_row_tiles);
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], by_halves[i]);
        for (const cuda::Ordering ordering : {cuda::Ordering::kNever, cuda::Ordering::kAlways}) {
          executor->SetOrdering(ordering);
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_EQ(executor->last_plan().tile, ScoreTile::kWide256);
          EXPECT_GT(executor->last_plan().num_half_tiles, 0);
          EXPECT_LT(executor->last_plan().num_half_tiles, executor->last_plan().num_row_tiles);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Long documents first, in chunks: whatever the lengths, the lists and the number of row tiles.
TEST_F(GpuScoreTest, OrderedCandidatesGiveTheSameBits) {
  constexpr uint32_t kNumDocuments = 3000;
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), kNumDocuments, 1, 40);
  for (size_t i = 0; i < lengths.size(); i += 17) lengths[i] = 1 << (i / 17 % 11);  // every power of two to 1,024
  lengths[1234] = 9001;
  ExecutorOptions options;
  options.max_queries = 64;
  options.max_query_tokens = 65536;
  // Each has scores of its own, and before every call those of empty queries, so that what an order leaves out is
  // missed.
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options), unordered = MakeExecutor(options);
  for (cuda::CudaExecutor* const each : {executor.get(), unordered.get()}) each->SetJoins(cuda::Joins::kNever);
  unordered->SetOrdering(cuda::Ordering::kNever);
  executor->SetOrdering(cuda::Ordering::kAlways);
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "the device is no Hopper GPU";
  const std::vector<float> zeros(size_t{513} * 768);
  for (const auto& [type, dim] :
       {Shape(ScalarType::kF16, 64), Shape(ScalarType::kBF16, 128), Shape(ScalarType::kI8, 96),
        Shape(ScalarType::kF16, 264), Shape(ScalarType::kI8, 768)}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (const int num_queries : {1, 5, 40, 64}) {  // 64: more row tiles than thread blocks
      std::mt19937 random(TestSeed());
      std::vector<RandomQuery> storage;
      std::vector<std::vector<uint32_t>> lists;
      std::vector<Query> queries;
      for (int i = 0; i < num_queries; ++i) {
        storage.push_back(MakeQuery(TestSeed() + 3 + i, type, dim,
                                    num_queries == 64 ? 513 : std::vector<int32_t>{100, 513, 7, 33}[i % 4]));
        // Of five queries all scores are compared, on both sides of 4,096 candidates.
        const std::vector<size_t> sizes = num_queries == 5 ? std::vector<size_t>{1, 4096, 4097, 400, 9000}
                                                           : std::vector<size_t>{2000, 1, 31, 400, 132};
        std::vector<uint32_t>& list = lists.emplace_back(sizes[i % 5]);
        for (uint32_t& ordinal : list) ordinal = random() % kNumDocuments;
        list.back() = 1234;
      }
      // One takes the whole set, and two have a list between them. All scores are results but where they are many.
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
        executor->AllowTiles(Only(tile));
        unordered->AllowTiles(Only(tile));
        const std::vector<std::vector<Scored>> expected = TopK(*unordered, *loaded, queries);
        EXPECT_FALSE(unordered->last_ordered());
        for (int run = 0; run < 2; ++run) {
          TopK(*executor, *loaded, empty_queries);
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
          EXPECT_TRUE(executor->last_ordered());
          EXPECT_EQ(executor->last_plan().tile, tile);
          for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        }
      }
    }
  }
}

// Few documents a thread block, of unequal length; but neither many, nor equal ones.
TEST_F(GpuScoreTest, CandidatesAreOrderedWhereThatSavesTime) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  executor->AllowTiles(kTilesOfLongCalls);
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "the device is no Hopper GPU";
  const auto ordered = [&](int num_documents, int64_t usual, int64_t longest) {
    std::vector<int64_t> lengths(static_cast<size_t>(num_documents), usual);
    lengths[5] = longest;
    const std::unique_ptr<Documents> loaded = Load(MakeDocuments(TestSeed(), ScalarType::kF16, 64, lengths));
    TopK(*executor, *loaded, {MakeQuery(TestSeed() + 1, ScalarType::kF16, 64, 189).view(10)});
    return executor->last_ordered();
  };
  EXPECT_TRUE(ordered(700, 100, 2000));
  EXPECT_FALSE(ordered(130, 100, 2000));  // each multiprocessor has one
  EXPECT_FALSE(ordered(700, 100, 100));
  EXPECT_FALSE(ordered(15000, 100, 101));
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

// Partial sums have room for part of the candidates only: the call takes several passes.
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

// Queries beyond the pinned staging of one slice: the call is cut, its results are not.
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

// NaN, or the largest elements, in every document but the candidates: in the rows right before and right behind each of
// them.
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
          executor->AllowTiles(tiles);
          // The poisoned set first and again at the end: shared memory is then full of NaN from its own neighbours.
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
  // Within them it still works.
  ExpectMatchesReference(documents, call, TopK(*executor, *loaded, {call})[0]);
}

TEST_F(GpuScoreTest, DocumentsThatDoNotFitAreRefusedWithTheNumbers) {
  // A view that claims more tokens than the device has memory; Load must refuse it before it reads them.
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
