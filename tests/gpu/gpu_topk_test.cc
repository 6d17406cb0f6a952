// Selection on the device alone, from scores that the test makes, against the host's sort.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/topk/topk_launch.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract_runner.h"

namespace maxsim::test {
namespace {

using cuda::DeviceBuffer;
using cuda::SelectQuery;

struct Problem {
  std::vector<float> scores;
  int32_t k;
};

class GpuTopKTest : public GpuTest {
 protected:
  template <class T>
  static DeviceBuffer OnDevice(const std::vector<T>& values) {
    DeviceBuffer buffer = *DeviceBuffer::Allocate(std::max<size_t>(values.size(), 1) * sizeof(T), "test");
    EXPECT_EQ(cudaMemcpy(buffer.as(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    return buffer;
  }

  static DeviceBuffer Filled(size_t bytes, int byte) {
    DeviceBuffer buffer = *DeviceBuffer::Allocate(std::max<size_t>(bytes, 1), "test");
    EXPECT_EQ(cudaMemset(buffer.as(), byte, bytes), cudaSuccess);
    return buffer;
  }

  // Runs all problems in one call, with garbage in every buffer that has no defined content.
  std::vector<std::vector<Scored>> Select(const std::vector<Problem>& problems) {
    std::vector<float> scores;
    std::vector<SelectQuery> queries;
    int64_t num_results = 0, num_keys = 0, most_candidates = 0, most_k = 0;
    int num_radix = 0;
    for (const Problem& problem : problems) {
      const auto count = static_cast<int64_t>(problem.scores.size());
      const int32_t k = static_cast<int32_t>(std::min<int64_t>(problem.k, count));
      const bool radix = count > kRankAllCandidates;
      queries.push_back(
          {static_cast<int64_t>(scores.size()), count, num_results, radix ? num_keys : 0, k, radix ? num_radix++ : -1});
      scores.insert(scores.end(), problem.scores.begin(), problem.scores.end());
      num_results += k;
      if (radix) num_keys += k;
      most_candidates = std::max(most_candidates, count);
      most_k = std::max<int64_t>(most_k, k);
    }
    const SelectPlan plan =
        PlanSelect(static_cast<int64_t>(problems.size()), most_candidates, most_k, backend().device()->limits);
    const DeviceBuffer device_scores = OnDevice(scores), device_queries = OnDevice(queries);
    const DeviceBuffer keys = Filled(static_cast<size_t>(num_keys) * sizeof(uint64_t), 0xff);
    const DeviceBuffer workspaces = Filled(static_cast<size_t>(num_radix) * sizeof(cuda::SelectWorkspace), 0);
    const DeviceBuffer results = Filled(static_cast<size_t>(num_results) * sizeof(cuda::DeviceScored), 0xff);
    const cuda::Stream stream = *cuda::Stream::Create();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const int count = static_cast<int>(problems.size());
    if (plan.radix) {
      EXPECT_EQ(cuda::LaunchRadixSelect(plan, device_queries.as<SelectQuery>(), count, device_scores.as<float>(),
                                        workspaces.as<cuda::SelectWorkspace>(), keys.as<uint64_t>(), stream.get()),
                cudaSuccess);
    }
    EXPECT_EQ(cuda::LaunchRank(plan, device_queries.as<SelectQuery>(), count, device_scores.as<float>(),
                               keys.as<uint64_t>(), results.as<cuda::DeviceScored>(), stream.get()),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    std::vector<cuda::DeviceScored> all(static_cast<size_t>(num_results));
    EXPECT_EQ(cudaMemcpy(all.data(), results.as(), all.size() * sizeof(all[0]), cudaMemcpyDeviceToHost), cudaSuccess);
    std::vector<std::vector<Scored>> lists;
    for (const SelectQuery& query : queries) {
      std::vector<Scored>& list = lists.emplace_back();
      for (int32_t i = 0; i < query.k; ++i) {
        const cuda::DeviceScored& scored = all[static_cast<size_t>(query.results_offset + i)];
        list.push_back({scored.score, scored.position});
      }
    }
    return lists;
  }

  static std::vector<Scored> Expected(const Problem& problem) {
    std::vector<Scored> all;
    for (size_t i = 0; i < problem.scores.size(); ++i) all.push_back({problem.scores[i], static_cast<uint32_t>(i)});
    const size_t k = std::min<size_t>(static_cast<size_t>(problem.k), all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(), RanksBefore);
    all.resize(k);
    return all;
  }

  void Check(const std::vector<Problem>& problems) {
    const std::vector<std::vector<Scored>> actual = Select(problems);
    for (size_t i = 0; i < problems.size(); ++i) {
      SCOPED_TRACE(testing::Message() << problems[i].scores.size() << " candidates, k " << problems[i].k);
      ExpectSameBits(Expected(problems[i]), actual[i]);
    }
  }
};

std::vector<float> Normal(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(20.0f, 3.0f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_F(GpuTopKTest, EveryKAroundTheWarpAndTheLimits) {
  for (size_t count : {1, 2, 31, 32, 33, 1000, 4095, 4096, 4097, 12000, 100003}) {
    for (int32_t k : {1, 2, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 9999, 10000}) {
      Check({{Normal(TestSeed() + count, count), k}});
    }
  }
}

TEST_F(GpuTopKTest, TiesGoByPosition) {
  std::mt19937_64 random(TestSeed());
  for (size_t count : {500, 5000, 300000}) {
    std::vector<float> few(count), equal(count, 1.5f), signs(count);
    for (float& value : few) value = static_cast<float>(random() % 5) - 2.0f;
    for (float& value : signs) value = random() % 2 ? -1.0f : 1.0f;
    for (int32_t k : {1, 100, 1024, 10000}) Check({{few, k}, {equal, k}, {signs, k}});
  }
}

TEST_F(GpuTopKTest, ExtremeAndOrderedScores) {
  const float largest = std::numeric_limits<float>::max();
  const float tiny = std::numeric_limits<float>::denorm_min();
  std::vector<float> extreme = {0.0f, -1.0f, largest, -largest, tiny, -tiny, 1.0f, std::nextafter(1.0f, 2.0f)};
  Check({{extreme, 10}});
  while (extreme.size() < 200000) extreme.push_back(extreme[extreme.size() % 8]);
  std::vector<float> rising(200000), falling(200000);
  for (size_t i = 0; i < rising.size(); ++i) {
    rising[i] = static_cast<float>(i) * 1e-3f;
    falling[i] = -rising[i];
  }
  for (int32_t k : {1, 1000, 10000}) Check({{extreme, k}, {rising, k}, {falling, k}});
}

TEST_F(GpuTopKTest, QueriesOfAllSizesTogether) {
  std::vector<Problem> problems;
  for (int i = 0; i < 32; ++i) {
    const size_t count = i % 3 == 0 ? 20000u + 997u * static_cast<size_t>(i) : 1u + 130u * static_cast<size_t>(i);
    problems.push_back({Normal(TestSeed() + static_cast<uint64_t>(i), count), 1 + 319 * i});
  }
  Check(problems);
}

TEST_F(GpuTopKTest, MillionsOfCandidates) {
  for (size_t count : {size_t{1} << 20, size_t{3000001}}) {
    std::vector<float> scores = Normal(TestSeed(), count);
    for (int32_t k : {1, 100, 10000}) Check({{scores, k}});
    // Rounded as if there were few distinct ones, so that the cut falls among thousands of equals.
    for (float& score : scores) score = std::round(score * 4.0f) / 4.0f;
    for (int32_t k : {100, 10000}) Check({{scores, k}});
  }
}

TEST_F(GpuTopKTest, TwentyRunsGiveTheSameResults) {
  std::vector<float> scores = Normal(TestSeed(), 500000);
  for (float& score : scores) score = std::round(score);
  const std::vector<std::vector<Scored>> first = Select({{scores, 2000}});
  for (int run = 1; run < 20; ++run) ExpectSameBits(first[0], Select({{scores, 2000}})[0]);
}

// The whole way: a shard of more than a million documents, every one a candidate.
TEST_F(GpuTopKTest, AShardOfAMillionDocuments) {
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 8, std::vector<int64_t>((1 << 20) + 1, 1));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const RandomQuery first = MakeQuery(TestSeed() + 1, ScalarType::kF16, 8, 5);
  const RandomQuery second = MakeQuery(TestSeed() + 2, ScalarType::kF16, 8, 40);
  const std::vector<Query> queries = {first.view(kMaxTopK), second.view(100)};
  const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
  for (size_t i = 0; i < queries.size(); ++i) ExpectMatchesReference(documents, queries[i], results[i]);
}

}  // namespace
}  // namespace maxsim::test
