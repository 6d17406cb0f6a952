// Tests selections of the best scores that share the device with other work and with each other.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/select/topk_launch.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/gpu_topk_fixture.h"
#include "tests/gpu/hold.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

TEST_F(GpuTopKTest, ManyLargeQueriesTogether) {
  const std::vector<float> scores = Normal(TestSeed(), 60000);
  for (size_t num_queries : {2, 5, 33, 132, 133, 256}) {
    std::vector<Problem> problems;
    for (size_t i = 0; i < num_queries; ++i) {
      const size_t count = 4097 + i * 7919 % 50000, first = i * 31 % 5000;
      problems.push_back({{scores.begin() + static_cast<std::ptrdiff_t>(first),
                           scores.begin() + static_cast<std::ptrdiff_t>(first + count)},
                          static_cast<int32_t>(1 + i * 1237 % 10000)});
    }
    Check(problems);
  }
}

// Another kernel occupies all multiprocessors but one until the selection is done. The selection must succeed, so its
// thread blocks must not wait for blocks that cannot start.
TEST_F(GpuTopKTest, SelectionNeedsNoMoreThanOneMultiprocessor) {
  const cuda::Device& device = *backend().device();
  std::vector<float> skewed = Normal(TestSeed(), 300000);
  for (size_t i = 0; i < skewed.size(); i += 512) skewed[i] += 100.0f;
  const std::vector<Problem> problems = {
      {Normal(TestSeed(), 1000000), 100}, {Normal(TestSeed(), 1000000), 10000}, {skewed, 500}};
  for (const Problem& problem : problems) {
    Call call({problem}, device);
    const cuda::Stream stream = *cuda::Stream::Create();
    HeldMultiprocessors held(device.limits.num_sms - 1, device.limits.shared_bytes_per_block);
    ASSERT_TRUE(held.AllHeld());
    call.Launch(stream.get());
    EXPECT_TRUE(WaitFor([&] { return call.HasTimes(); }));
    held.Release();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_TRUE(call.IsClean());
    ExpectSameBits(Expected(problem), call.TakeResults()[0]);
  }
}

TEST_F(GpuTopKTest, LaunchesOfOneStreamFollowEachOther) {
  std::vector<float> skewed = Normal(TestSeed(), 200000);
  for (size_t i = 0; i < skewed.size(); i += 512) skewed[i] += 100.0f;
  const std::vector<Problem> problems = {{Normal(TestSeed(), 150000), 700}, {skewed, 1200}, {Normal(1, 1000), 100}};
  Call call(problems, *backend().device());
  const cuda::Stream stream = *cuda::Stream::Create();
  for (int run = 0; run < 100; ++run) call.Launch(stream.get());
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_TRUE(call.HasTimes());
  EXPECT_TRUE(call.IsClean());
  const std::vector<std::vector<Scored>> results = call.TakeResults();
  for (size_t i = 0; i < problems.size(); ++i) ExpectSameBits(Expected(problems[i]), results[i]);
}

// Several executors select at the same time. The results must not depend on how their thread blocks share the device.
TEST_F(GpuTopKTest, ConcurrentExecutorsGiveTheSameResults) {
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, std::vector<int64_t>(70000, 1));
  const std::unique_ptr<Documents> loaded = Load(documents);
  std::vector<RandomQuery> queries;
  std::vector<std::vector<uint32_t>> lists;
  for (uint64_t i = 0; i < 6; ++i) {
    queries.push_back(MakeQuery(TestSeed() + i, ScalarType::kF16, 16, 3 + 9 * static_cast<int32_t>(i)));
    std::vector<uint32_t>& list = lists.emplace_back(i % 2 == 0 ? 1000 : 20000);
    for (size_t n = 0; n < list.size(); ++n) list[n] = static_cast<uint32_t>((n * 7919 + i) % 70000);
  }
  std::vector<Query> calls;
  for (size_t i = 0; i < queries.size(); ++i) {
    calls.push_back(queries[i].view(i % 3 == 0 ? 100 : 3000));
    calls.push_back(queries[i].view(500));
    calls.back().ordinals = lists[i].data();
    calls.back().num_candidates = static_cast<int64_t>(lists[i].size());
  }
  const std::unique_ptr<cuda::CudaExecutor> alone = MakeExecutor();
  std::vector<std::vector<Scored>> expected;
  for (const Query& call : calls) expected.push_back(TopK(*alone, *loaded, {call})[0]);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
      for (size_t run = 0; run < 60; ++run) {
        const size_t i = (run * 5 + t) % calls.size();
        if (run % 4 == 3) {  // a call of several queries
          const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, {calls[i], calls[0], calls[5]});
          ExpectSameBits(expected[i], results[0]);
          ExpectSameBits(expected[0], results[1]);
          ExpectSameBits(expected[5], results[2]);
        } else {
          ExpectSameBits(expected[i], TopK(*executor, *loaded, {calls[i]})[0]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Calls with and without copies, and with each way in which the host can wait for results, must give the same results.
TEST_F(GpuTopKTest, EveryWayOfCallingGivesTheSameResults) {
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, std::vector<int64_t>(6000, 3));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  for (int32_t num_tokens : {32, 33, 100}) {
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, num_tokens);
    for (int32_t k : {1, 100, 4096, 4097, 6000}) {
      executor->tuning().stage_events = true;
      const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(k)})[0];
      executor->tuning().stage_events = false;
      for (const cuda::WaitMode mode : {cuda::WaitMode::kAdaptive, cuda::WaitMode::kPoll, cuda::WaitMode::kEvent}) {
        executor->tuning().wait_mode = mode;
        for (int run = 0; run < 20; ++run) ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(k)})[0]);
      }
      EXPECT_GT(executor->trace().seconds.score, 0);
    }
  }
}

// All documents of the shard, more than a million, are candidates.
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
