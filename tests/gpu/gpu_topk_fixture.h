// Selects the best scores on the device, from scores that a test makes, and compares the results with the host's.
#pragma once

#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/select.h"
#include "kernels/rank_order.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {

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

  // The device memory of a LaunchSelect call. The buffers that the call writes are filled with garbage. The call can be
  // launched any number of times.
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
      // The launch expects large selections before small ones.
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

    // Returns whether the last launch has recorded its times.
    bool HasTimes() const {
      const cuda::CallTimes& times = *times_.as<cuda::CallTimes>();
      const uint64_t end = __atomic_load_n(&times.results_end, __ATOMIC_ACQUIRE);
      return end != cuda::kNotThere && __atomic_load_n(&times.scores_end, __ATOMIC_ACQUIRE) <= end;
    }

    // Returns the results in the order of the problems. Fills the device's buffers with garbage again.
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

    // Returns whether the workspaces are zero, as the next launch needs them.
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

  // Returns the expected results of a selection, which the host finds by sorting. A score of -0 becomes +0.
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

inline std::vector<float> Normal(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(20.0f, 3.0f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace maxsim::test
