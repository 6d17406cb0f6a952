// Compares calls that launch a single kernel (kernels/cuda/score/hopper_stream/single_launch_call.h) with the same
// calls made of several launches.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/runtime/repeated_launch.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/shares.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/hold.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

class GpuSingleLaunchTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  }

  static std::vector<uint32_t> RandomList(uint64_t seed, size_t count, int64_t num_documents) {
    std::mt19937_64 random(seed);
    std::vector<uint32_t> list(count);
    for (uint32_t& ordinal : list) ordinal = static_cast<uint32_t>(random() % static_cast<uint64_t>(num_documents));
    return list;
  }

  // Runs the call three times on `one_`, which may use a single launch, and compares the results with those of
  // `several_`, which may not. `expect_single_launch` says whether `one_` must use a single launch.
  void Check(const Documents& documents, const Query& query, bool expect_single_launch) {
    SCOPED_TRACE(testing::Message() << Name(documents.type()) << ", dim " << documents.dim() << ", " << query.num_tokens
                                    << " query tokens, " << query.num_candidates << " listed candidates, k "
                                    << query.top_k);
    several_->tuning().single_launch_calls = false;
    const std::vector<Scored> expected = TopK(*several_, documents, {query})[0];
    EXPECT_NE(several_->trace().path, cuda::CallPath::kSingleLaunch);
    for (int run = 0; run < 3; ++run) {
      ExpectSameBits(expected, TopK(*one_, documents, {query})[0]);
      EXPECT_EQ(one_->trace().path == cuda::CallPath::kSingleLaunch, expect_single_launch);
      EXPECT_GT(one_->trace().seconds.score, 0);
      EXPECT_GT(one_->trace().seconds.copy_in, 0);
      EXPECT_GT(one_->trace().seconds.select, 0);
    }
  }

  // Checks the selection from one-token documents that have `scores` in FP16.
  void CheckScores(const std::vector<float>& scores) {
    constexpr int32_t kDim = 64;
    RandomDocuments documents = MakeDocuments(1, ScalarType::kF16, kDim, std::vector<int64_t>(scores.size(), 1));
    RandomQuery query = MakeQuery(1, ScalarType::kF16, kDim, 1);
    std::vector<float> row(kDim, 0.0f);
    row[3] = 1;
    query.tokens.SetRow(0, row);
    for (size_t i = 0; i < scores.size(); ++i) {
      row[3] = scores[i];
      documents.tokens.SetRow(static_cast<int64_t>(i), row);
    }
    const std::unique_ptr<Documents> loaded = Load(documents);
    const auto count = static_cast<int32_t>(scores.size());
    for (const int32_t k : {1, 10, 100, 383, 384, 385, count}) Check(*loaded, query.view(k), true);
  }

  std::unique_ptr<cuda::CudaExecutor> one_, several_;
};

TEST_F(GpuSingleLaunchTest, EveryTypeWidthAndCount) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  const std::vector<int64_t> ragged = RandomLengths(TestSeed(), 5000, 1, 150);
  const std::vector<int64_t> equal(3000, 20);
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    for (const int32_t dim : {16, 48, 64, 96, 128}) {
      for (const bool is_ragged : {true, false}) {
        const RandomDocuments documents = MakeDocuments(TestSeed() + 1, type, dim, is_ragged ? ragged : equal);
        const std::unique_ptr<Documents> loaded = Load(documents);
        for (const size_t count : {1, 2, 31, 33, 131, 133, 383, 385, 1000, 2047, 2048, 2049}) {
          const std::vector<uint32_t> list = RandomList(TestSeed() + count, count, loaded->num_documents());
          const int32_t num_tokens = static_cast<int32_t>(1 + count % 32);
          RandomQuery query = MakeQuery(TestSeed() + count, type, dim, num_tokens);
          if (count % 2 == 1) query.weights = MixedWeights(TestSeed() + count, num_tokens);
          for (const int32_t k : {1, 100, 3000}) Check(*loaded, query.view(k, &list), count <= 2048);
        }
      }
    }
  }
}

TEST_F(GpuSingleLaunchTest, WholeShards) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  for (const size_t count : {1, 7, 1000, 2048, 2049}) {
    const RandomDocuments documents =
        MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(TestSeed(), static_cast<int64_t>(count), 1, 90));
    const std::unique_ptr<Documents> loaded = Load(documents);
    Check(*loaded, MakeQuery(TestSeed(), ScalarType::kF16, 128, 32).view(100), count <= 2048);
  }
}

// Calls with longer queries, several queries, or rows that do not fit into registers must take several launches.
TEST_F(GpuSingleLaunchTest, OtherCallsTakeSeveralLaunches) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  for (const auto& [dim, num_tokens] : {std::pair{128, 33}, std::pair{128, 400}, std::pair{256, 32}}) {
    const RandomDocuments documents =
        MakeDocuments(TestSeed(), ScalarType::kF16, dim, RandomLengths(TestSeed(), 700, 1, 90));
    const std::unique_ptr<Documents> loaded = Load(documents);
    Check(*loaded, MakeQuery(TestSeed(), ScalarType::kF16, dim, num_tokens).view(50), false);
  }
}

TEST_F(GpuSingleLaunchTest, ScoresOfAllShapes) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  std::mt19937_64 random(TestSeed());
  const auto draw = [&random](size_t count, auto value) {
    std::vector<float> scores(count);
    for (size_t i = 0; i < count; ++i) scores[i] = value(i, static_cast<float>(random() >> 40) / (1 << 24));
    return scores;
  };
  for (const size_t count : {1000, 2048}) {
    CheckScores(draw(count, [](size_t, float) { return 1.5f; }));
    CheckScores(draw(count, [](size_t, float x) { return x < 0.5f ? 1.5f : 1.501f; }));
    CheckScores(draw(count, [](size_t i, float) { return static_cast<float>(i); }));
    CheckScores(draw(count, [](size_t i, float) { return -static_cast<float>(i); }));
    CheckScores(draw(count, [](size_t, float x) { return x < 0.5f ? -20 - x : 20 + x; }));
    CheckScores(draw(count, [](size_t i, float x) { return i == 77 ? 60000.0f : 1 + x / 100; }));
    CheckScores(draw(count, [](size_t i, float x) { return i % 3 == 0 ? -60000.0f : 1 + x / 100; }));
    CheckScores(draw(count, [](size_t i, float) { return i % 2 == 0 ? -0.0f : 0.0f; }));
  }
}

// Repeated calls with the same launch parameters become a CUDA graph. Each replay of the graph must read the input of
// its own call, also after other calls in between.
TEST_F(GpuSingleLaunchTest, CallsAlikeBecomeAGraph) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  several_->tuning().single_launch_calls = false;
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 128, RandomLengths(TestSeed(), 5000, 1, 50));
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (int run = 0; run < 60; ++run) {
      const bool other = run >= 30 && run % 3 == 0;
      const auto seed = TestSeed() + static_cast<uint64_t>(run);
      const std::vector<uint32_t> list = RandomList(seed, 800, loaded->num_documents());
      const RandomQuery query = MakeQuery(seed, type, 128, 1 + run % 32);
      const Query call = query.view(other ? 20 : 100, &list);
      ExpectSameBits(TopK(*several_, *loaded, {call})[0], TopK(*one_, *loaded, {call})[0]);
      EXPECT_EQ(one_->trace().graph_replayed, run >= cuda::RepeatedLaunch::kStartsBefore && !other) << run;
    }
  }
}

// Documents have unequal lengths, so thread blocks claim half of them at run time, or teams divide them. Every call or
// replay must reset the counters for the next one.
TEST_F(GpuSingleLaunchTest, UnequalDocumentsAreSharedOutAnewInEveryReplay) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  several_->tuning().single_launch_calls = false;
  std::vector<int64_t> lengths = RandomLengths(TestSeed(), 4000, 1, 60);
  for (size_t i = 0; i < lengths.size(); i += 10) lengths[i] = 900;
  for (const auto& [type, teams] : std::vector<std::pair<ScalarType, int32_t>>{
           {ScalarType::kF16, 0}, {ScalarType::kI8, 0}, {ScalarType::kF16, 1}, {ScalarType::kI8, 1}}) {
    const StreamTuning tuning{.teams = teams};
    one_->tuning().stream = tuning;
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 128, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    const int64_t mean_tokens = loaded->num_tokens() / loaded->num_documents();
    const int64_t spread_tokens = static_cast<const cuda::CudaDocuments&>(*loaded).spread_tokens();
    for (int run = 0; run < 30; ++run) {
      const auto seed = TestSeed() + static_cast<uint64_t>(run);
      const std::vector<uint32_t> list = RandomList(seed, 1500, loaded->num_documents());
      const RandomQuery query = MakeQuery(seed, type, 128, 1 + run % 32);
      const Query call = query.view(100, &list);
      ExpectSameBits(TopK(*several_, *loaded, {call})[0], TopK(*one_, *loaded, {call})[0]);
      EXPECT_EQ(one_->trace().path, cuda::CallPath::kSingleLaunch);
      EXPECT_EQ(one_->trace().graph_replayed, run >= cuda::RepeatedLaunch::kStartsBefore) << run;
      const StreamShares shares =
          PlanStreamShares(one_->trace().plan, {1500, 1500, mean_tokens, spread_tokens}, tuning);
      EXPECT_EQ(shares.all_assigned(), teams > 0);
      EXPECT_EQ(shares.team_blocks > 1, teams > 0);
    }
  }
}

// Single-launch calls must give the same results after calls of several launches, and on several threads with an
// executor each.
TEST_F(GpuSingleLaunchTest, ManyTogether) {
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(TestSeed(), 20000, 1, 100));
  const std::unique_ptr<Documents> loaded = Load(documents);
  std::vector<RandomQuery> queries;
  std::vector<std::vector<uint32_t>> lists;
  for (uint64_t i = 0; i < 8; ++i) {
    queries.push_back(MakeQuery(TestSeed() + i, ScalarType::kF16, 128, static_cast<int32_t>(4 + 4 * i)));
    lists.push_back(RandomList(TestSeed() + i, 1 + 290 * i, loaded->num_documents()));
  }
  std::vector<Query> calls;
  for (size_t i = 0; i < queries.size(); ++i) calls.push_back(queries[i].view(100, &lists[i]));
  several_ = MakeExecutor();
  several_->tuning().single_launch_calls = false;
  std::vector<std::vector<Scored>> expected;
  for (const Query& call : calls) expected.push_back(TopK(*several_, *loaded, {call})[0]);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
      for (size_t run = 0; run < 200; ++run) {
        const size_t i = (run * 3 + t) % calls.size();
        if (run % 16 == 15) {  // a call of two queries takes several launches
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, {calls[i], calls[0]});
          ExpectSameBits(expected[i], results[0]);
          ExpectSameBits(expected[0], results[1]);
        } else {
          ExpectSameBits(expected[i], TopK(*executor, *loaded, {calls[i]})[0]);
          EXPECT_EQ(executor->trace().path, cuda::CallPath::kSingleLaunch);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Single-launch calls of two shapes alternate. The executor makes other calls between them.
TEST_F(GpuSingleLaunchTest, OtherCallsBetween) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  several_->tuning().single_launch_calls = false;
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(TestSeed(), 9000, 1, 60));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::vector<uint32_t> list = RandomList(TestSeed(), 500, 9000), none;
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 20);
  const Query single = query.view(50, &list), other = query.view(60, &list), large = query.view(5000);
  Query empty = query.view(10, &list);
  empty.num_candidates = 0;
  const std::vector<Scored> of_single_launch = TopK(*several_, *loaded, {single})[0];
  const std::vector<Scored> of_other = TopK(*several_, *loaded, {other})[0];
  const std::vector<Scored> of_large = TopK(*several_, *loaded, {large})[0];
  std::vector<TokenMatch> matches(list.size() * 20), expected_matches(matches.size());
  ASSERT_TRUE(several_->Align(*loaded, single, list, absl::MakeSpan(expected_matches)).ok());
  for (int run = 0; run < 20; ++run) ExpectSameBits(of_single_launch, TopK(*one_, *loaded, {single})[0]);
  EXPECT_TRUE(one_->trace().graph_replayed);
  for (int run = 0; run < 40; ++run) {
    ExpectSameBits(of_single_launch, TopK(*one_, *loaded, {single})[0]);
    EXPECT_TRUE(one_->trace().graph_replayed);
    switch (run % 5) {
      case 0:
        ExpectSameBits(of_large, TopK(*one_, *loaded, {large})[0]);
        EXPECT_NE(one_->trace().path, cuda::CallPath::kSingleLaunch);
        break;
      case 1:
        ASSERT_TRUE(one_->Align(*loaded, single, list, absl::MakeSpan(matches)).ok());
        EXPECT_EQ(std::memcmp(matches.data(), expected_matches.data(), matches.size() * sizeof(TokenMatch)), 0);
        EXPECT_NE(one_->trace().path, cuda::CallPath::kSingleLaunch);
        break;
      case 2: {
        const std::vector<std::vector<Scored>> results = TopK(*one_, *loaded, {empty, single});
        EXPECT_TRUE(results[0].empty());
        ExpectSameBits(of_single_launch, results[1]);
        break;
      }
      default:
        // This shape is not used often enough in a row to replace the graph.
        ExpectSameBits(of_other, TopK(*one_, *loaded, {other})[0]);
        EXPECT_EQ(one_->trace().path, cuda::CallPath::kSingleLaunch);
        EXPECT_FALSE(one_->trace().graph_replayed);
    }
  }
}

// Documents sent with a call are at the same address as those of the previous call. A replayed graph must read the new
// documents.
TEST_F(GpuSingleLaunchTest, StagedDocuments) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  several_->tuning().single_launch_calls = false;
  for (int run = 0; run < 30; ++run) {
    const auto seed = TestSeed() + static_cast<uint64_t>(run);
    const RandomDocuments documents = MakeDocuments(seed, ScalarType::kF16, 64, std::vector<int64_t>(300, 12));
    const RandomQuery query = MakeQuery(seed, ScalarType::kF16, 64, 32);
    const auto staged = one_->Stage(documents.view());
    ASSERT_TRUE(staged.ok());
    ExpectSameBits(TopK(*several_, *Load(documents), {query.view(30)})[0], TopK(*one_, **staged, {query.view(30)})[0]);
    EXPECT_EQ(one_->trace().path, cuda::CallPath::kSingleLaunch);
  }
  EXPECT_TRUE(one_->trace().graph_replayed);
}

TEST_F(GpuSingleLaunchTest, EveryWayOfWaiting) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  // The longer documents are more than the L2 cache holds.
  for (const int64_t length : {3, 200}) {
    const RandomDocuments documents =
        MakeDocuments(TestSeed(), ScalarType::kF16, 128, std::vector<int64_t>(2048, length));
    const std::unique_ptr<Documents> loaded = Load(documents);
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 32);
    for (const cuda::WaitMode mode : {cuda::WaitMode::kAdaptive, cuda::WaitMode::kPoll, cuda::WaitMode::kEvent}) {
      one_->tuning().wait_mode = mode;
      for (const int32_t k : {1, 100, 2048}) Check(*loaded, query.view(k), true);
    }
  }
}

// Usually one thread block copies the input, and the others poll for the copy. With a limit of 0 polls, each block
// copies it.
TEST_F(GpuSingleLaunchTest, EveryThreadBlockMayBringTheInputOver) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  one_->tuning().single_launch_patience = 0;
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(TestSeed(), 2000, 1, 90));
  const std::unique_ptr<Documents> loaded = Load(documents);
  for (uint64_t i = 0; i < 20; ++i) {
    Check(*loaded, MakeQuery(TestSeed() + i, ScalarType::kF16, 128, 32).view(100), true);
  }
}

// Another kernel occupies all multiprocessors but one until the call is done.
TEST_F(GpuSingleLaunchTest, NeedsNoMoreThanOneMultiprocessor) {
  one_ = MakeExecutor();
  several_ = MakeExecutor();
  several_->tuning().single_launch_calls = false;
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(TestSeed(), 2000, 1, 90));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 32);
  const std::vector<Scored> expected = TopK(*several_, *loaded, {query.view(100)})[0];
  const DeviceLimits& limits = backend().device()->limits;
  HeldMultiprocessors held(limits.num_sms - 1, limits.shared_bytes_per_block);
  ASSERT_TRUE(held.AllHeld());
  for (int run = 0; run < 20; ++run) ExpectSameBits(expected, TopK(*one_, *loaded, {query.view(100)})[0]);
  EXPECT_TRUE(one_->trace().graph_replayed);
}

}  // namespace
}  // namespace maxsim::test
