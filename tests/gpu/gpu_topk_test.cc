// Compares selection on the device alone, from scores that the test makes, with the host's sort.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <thread>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/select.h"
#include "kernels/rank_order.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/hold.h"
#include "tests/support/contract/contract_runner.h"

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

  // Holds what a call of LaunchSelect needs on the device, with garbage in every buffer that has no defined content. It
  // may be launched any number of times.
  class Call {
   public:
    Call(const std::vector<Problem>& problems, const cuda::Device& device) : device_(device) {
      const auto is_large = [](const Problem& problem) {
        return static_cast<int64_t>(problem.scores.size()) > kRankAllCandidates;
      };
      const auto num_large = std::count_if(problems.begin(), problems.end(), is_large);
      std::vector<float> scores;
      std::vector<SelectQuery> table;
      int64_t num_keys = 0;
      // The launch wants the large selections first.
      for (const bool large : {true, false}) {
        for (size_t i = 0; i < problems.size(); ++i) {
          const Problem& problem = problems[i];
          if (is_large(problem) != large) continue;
          const auto count = static_cast<int64_t>(problem.scores.size());
          const int32_t k = static_cast<int32_t>(std::min<int64_t>(problem.k, count));
          const SelectPlan plan = PlanSelect(count, k, num_large, device.limits);
          // The NaN between the scores of two queries must not be read.
          scores.resize((scores.size() + kSelectAlignment - 1) / kSelectAlignment * kSelectAlignment,
                        std::numeric_limits<float>::quiet_NaN());
          table.push_back({static_cast<int64_t>(scores.size()), count, num_results_, num_keys, k, plan.splits,
                           plan.buckets, plan.list_keys});
          order_.push_back(i);
          scores.insert(scores.end(), problem.scores.begin(), problem.scores.end());
          num_results_ += k;
          num_keys += plan.keys();
          call_.most_splits = std::max(call_.most_splits, plan.splits);
          call_.most_rank_blocks = std::max(call_.most_rank_blocks, plan.rank_blocks);
        }
      }
      scores.push_back(std::numeric_limits<float>::quiet_NaN());
      EXPECT_LE(num_keys, MostSelectKeys(static_cast<int64_t>(problems.size()), num_results_, device.limits));
      call_.num_large = static_cast<int32_t>(num_large);
      call_.num_small = static_cast<int32_t>(problems.size()) - call_.num_large;
      queries_ = OnDevice(table);
      call_.only = table.front();
      table_ = std::move(table);
      scores_ = OnDevice(scores);
      keys_ = Filled(static_cast<size_t>(num_keys) * sizeof(uint64_t), 0xff);
      workspaces_ = Filled(static_cast<size_t>(num_large) * sizeof(cuda::SelectWorkspace), 0);
      results_ = Filled(static_cast<size_t>(num_results_) * sizeof(cuda::DeviceScored), 0xff);
      times_ = *cuda::PinnedBuffer::Allocate(sizeof(cuda::CallTimes), "test");
      call_.queries = queries_.as<SelectQuery>();
      call_.scores = scores_.as<float>();
      call_.workspaces = workspaces_.as<cuda::SelectWorkspace>();
      call_.keys = keys_.as<uint64_t>();
      call_.results = results_.as<cuda::DeviceScored>();
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }

    void Launch(cudaStream_t stream) {
      times_.as<cuda::CallTimes>()->scores_end = times_.as<cuda::CallTimes>()->results_end = cuda::kNotThere;
      EXPECT_EQ(cuda::LaunchSelect(call_, times_.as<cuda::CallTimes>(), device_.overlap, stream), cudaSuccess);
    }

    // Returns whether the last launch has noted its times.
    bool HasTimes() const {
      const cuda::CallTimes& times = *times_.as<cuda::CallTimes>();
      const uint64_t end = __atomic_load_n(&times.results_end, __ATOMIC_ACQUIRE);
      return end != cuda::kNotThere && __atomic_load_n(&times.scores_end, __ATOMIC_ACQUIRE) <= end;
    }

    // Returns the results in the order of the problems, and fills the device's with garbage again.
    std::vector<std::vector<Scored>> TakeResults() {
      std::vector<cuda::DeviceScored> all(static_cast<size_t>(num_results_));
      EXPECT_EQ(cudaMemcpy(all.data(), results_.as(), all.size() * sizeof(all[0]), cudaMemcpyDeviceToHost),
                cudaSuccess);
      EXPECT_EQ(cudaMemset(results_.as(), 0xff, all.size() * sizeof(all[0])), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      std::vector<std::vector<Scored>> lists(order_.size());
      for (size_t n = 0; n < order_.size(); ++n) {
        for (int32_t i = 0; i < table_[n].k; ++i) {
          const cuda::DeviceScored& scored = all[static_cast<size_t>(table_[n].results_offset + i)];
          lists[order_[n]].push_back({scored.score, scored.position});
        }
      }
      return lists;
    }

    // Returns whether the workspaces are as the next launch wants them.
    bool IsClean() const {
      std::vector<cuda::SelectWorkspace> workspaces(static_cast<size_t>(call_.num_large));
      EXPECT_EQ(cudaMemcpy(workspaces.data(), workspaces_.as(), workspaces.size() * sizeof(workspaces[0]),
                           cudaMemcpyDeviceToHost),
                cudaSuccess);
      const auto all_zero = [](const auto& values) {
        return std::all_of(std::begin(values), std::end(values), [](uint32_t value) { return value == 0; });
      };
      return std::all_of(workspaces.begin(), workspaces.end(), [&](const cuda::SelectWorkspace& workspace) {
        return workspace.num_done == 0 && workspace.num_left == 0 && workspace.num_keys == 0 &&
               workspace.num_histograms == 0 && all_zero(workspace.claimed) &&
               std::all_of(std::begin(workspace.histograms), std::end(workspace.histograms), all_zero);
      });
    }

   private:
    const cuda::Device& device_;
    std::vector<size_t> order_;
    std::vector<SelectQuery> table_;
    int64_t num_results_ = 0;
    cuda::SelectCall call_{};
    DeviceBuffer queries_, scores_, keys_, workspaces_, results_;
    cuda::PinnedBuffer times_;
  };

  // Selects for all problems in one call.
  std::vector<std::vector<Scored>> Select(const std::vector<Problem>& problems) {
    Call call(problems, *backend().device());
    const cuda::Stream stream = *cuda::Stream::Create();
    call.Launch(stream.get());
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    EXPECT_TRUE(call.HasTimes());
    EXPECT_TRUE(call.IsClean());
    return call.TakeResults();
  }

  // Returns what a selection must give: the host's sort, with +0 where a score is -0.
  static std::vector<Scored> Expected(const Problem& problem) {
    std::vector<Scored> all;
    for (size_t i = 0; i < problem.scores.size(); ++i) {
      all.push_back({problem.scores[i] + 0.0f, static_cast<uint32_t>(i)});
    }
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
    // The scores are rounded to few distinct ones, so that the cut falls among thousands of equals.
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

// Sizes lie on both sides of those where the plan changes, with every remainder of four.
TEST_F(GpuTopKTest, EverySizeAroundThePlansEdges) {
  const std::vector<float> scores = Normal(TestSeed(), 140000);
  for (size_t edge : {4096, 8192, 16384, 24576, 65536, 131072}) {
    for (size_t count = edge - 2; count <= edge + 3; ++count) {
      for (int32_t k : {1, 341, 342, 1000, 2730, 2731, 10000}) {
        Check({{{scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(count)}, k}});
      }
    }
  }
}

// Scores fall on the buckets, lists and bins as badly as they can.
TEST_F(GpuTopKTest, AdversarialScores) {
  std::mt19937_64 random(TestSeed());
  for (size_t count : {size_t{5000}, size_t{50001}, size_t{1000002}}) {
    const std::vector<float> normal = Normal(TestSeed() + count, count);
    std::vector<std::vector<float>> kinds;
    // The best scores lie all in one split, whatever number of splits there is.
    for (int32_t k : {100, 1000, 10000}) {
      const SelectPlan plan = PlanSelect(static_cast<int64_t>(count), k, 1, backend().device()->limits);
      std::vector<float>& one_split = kinds.emplace_back(normal);
      for (size_t i = 0; i < count; ++i) {
        if (i / 128 % static_cast<size_t>(plan.splits) == 0) one_split[i] += 100.0f;
      }
    }
    // The best scores lie side by side at the end, or are one in 4, 128 and 4,096.
    std::vector<float>& block = kinds.emplace_back(normal);
    for (size_t i = count - count / 5; i < count; ++i) block[i] += 100.0f;
    for (size_t period : {4, 128, 4096}) {
      std::vector<float>& periodic = kinds.emplace_back(normal);
      for (size_t i = 0; i < count; i += period) periodic[i] += 100.0f;
    }
    // One score is far above the others and one far below, or they reach both ends of the range of floats.
    std::vector<float>& outliers = kinds.emplace_back(normal);
    outliers[count / 3] = 1e30f;
    outliers[count / 2] = -1e30f;
    std::vector<float>& wide = kinds.emplace_back(normal);
    for (float& score : wide) {
      score = std::ldexp(random() % 2 == 0 ? score : -score, static_cast<int>(random() % 240) - 120);
    }
    // Scores form clusters of equal ones, and the cut falls inside, between and below them.
    std::vector<float>& clusters = kinds.emplace_back(normal);
    for (size_t i = 0; i < count; ++i) clusters[i] = i % 2 == 0 ? -1.0f : i < 12000 ? 2.0f : 1.0f;
    std::vector<float>& nearly = kinds.emplace_back(count, 1.0f);
    nearly[count - 1] = std::nextafter(1.0f, 2.0f);
    nearly[7] = std::nextafter(1.0f, 0.0f);
    // Scores have few bits, as cosine similarities of quantised vectors do.
    std::vector<float>& coarse = kinds.emplace_back(normal);
    for (float& score : coarse) score = std::round(score * 32.0f) / 32.0f;
    std::vector<float>& negative = kinds.emplace_back(normal);
    for (float& score : negative) score = -std::fabs(score);
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      SCOPED_TRACE(testing::Message() << "kind " << kind);
      for (int32_t k : {1, 100, 1000, 10000}) Check({{kinds[kind], k}});
    }
  }
}

// The test goes every way that a selection can take, and is small enough for the sanitizers.
TEST_F(GpuTopKTest, EveryPathOnLittleData) {
  const std::vector<float> normal = Normal(TestSeed(), 40003);
  const auto first = [&](std::ptrdiff_t count) { return std::vector<float>(normal.begin(), normal.begin() + count); };
  std::vector<float> one_split = normal, clusters(20000), equal(17000, 2.0f);
  const SelectPlan plan = PlanSelect(static_cast<int64_t>(normal.size()), 700, 1, backend().device()->limits);
  for (size_t i = 0; i < one_split.size(); ++i) {
    if (i / 128 % static_cast<size_t>(plan.splits) == 0) one_split[i] += 100.0f;
  }
  for (size_t i = 0; i < clusters.size(); ++i) clusters[i] = i % 2 == 0 ? -1.0f : i < 12000 ? 2.0f : 1.0f;
  Check({{first(1000), 100}});    // ranks all candidates
  Check({{first(5000), 100}});    // one thread block, by buckets
  Check({{first(5000), 2000}});   // few thread blocks, by histograms, ranked by bins
  Check({{first(40003), 1000}});  // several thread blocks, by buckets
  Check({{one_split, 700}});      // a list of keys overflows
  Check({{clusters, 8000}});      // bins are too full
  Check({{equal, 3000}});
  Check({{first(30001), 500}, {first(700), 30}, {equal, 100}});
}

TEST_F(GpuTopKTest, ZerosOfBothSignsAreEqual) {
  for (size_t count : {100, 5000, 100000}) {
    std::vector<float> scores(count);
    for (size_t i = 0; i < count; ++i) scores[i] = i % 7 == 3 ? -1.0f : i % 3 == 0 ? -0.0f : 0.0f;
    const Problem problem{scores, 1000};
    const std::vector<Scored> expected = Expected(problem), actual = Select({problem})[0];
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i], expected[i]);  // compared by value, since a zero comes back without a sign
      ASSERT_FALSE(actual[i].score == 0.0f && std::signbit(actual[i].score));
    }
  }
}

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

// Somebody else holds all multiprocessors but one until the selection is done: its thread blocks have to do without
// those that cannot start.
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

// Selections of several executors at once may share the device in any way.
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

// Calls have copies or none, and the host waits for them in each of its ways.
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

// A call scores and selects from a shard of more than a million documents, all of which are candidates.
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
