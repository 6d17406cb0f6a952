// Tests the parts of the CPU backend that need no particular instruction set: packing of queries, row blocks, the order
// in which a score is summed, and the thread pool.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/loops/pack.h"
#include "kernels/cpu/loops/row_block.h"
#include "kernels/cpu/loops/sum_maxima.h"
#include "kernels/cpu/query_stack.h"
#include "kernels/thread_pool.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::cpu {
namespace {

// Returns an instruction set with these sizes. The tests use none of its other properties.
Isa ShapeOf(size_t lanes, size_t panel_vectors) {
  Isa isa = kPortableIsa;
  isa.lanes = lanes;
  isa.panel_vectors = panel_vectors;
  return isa;
}

constexpr Feed kBf16Feed = {.form = StepForm::kBf16Pairs, .row_multiple = 24};

TEST(PackTest, PanelsFollowOneAnotherAndTheLastMayBeNarrow) {
  // Ten lanes, in vectors of 2 lanes and panels of 2 vectors, make panels of 4, 4 and 2 lanes.
  const PanelLayout layout = {.lanes = 2, .panel_vectors = 2, .num_vectors = 5, .num_steps = 3};
  EXPECT_EQ(layout.size(), 30u);
  EXPECT_EQ(PanelIndex(layout, 0, 0), 0u);
  EXPECT_EQ(PanelIndex(layout, 3, 0), 3u);
  EXPECT_EQ(PanelIndex(layout, 1, 2), 2 * 4 + 1u);
  EXPECT_EQ(PanelIndex(layout, 4, 0), 12u);
  EXPECT_EQ(PanelIndex(layout, 6, 1), 12 + 4 + 2u);
  EXPECT_EQ(PanelIndex(layout, 8, 0), 24u);
  EXPECT_EQ(PanelIndex(layout, 9, 2), 24 + 2 * 2 + 1u);
}

TEST(PackTest, EveryStepHasItsOwnPlace) {
  for (size_t num_vectors = 1; num_vectors < 10; ++num_vectors) {
    const PanelLayout layout = {.lanes = 4, .panel_vectors = 3, .num_vectors = num_vectors, .num_steps = 5};
    std::vector<uint32_t> panels(layout.size(), 0xffffffff);
    for (size_t lane = 0; lane < layout.num_lanes(); ++lane) {
      std::vector<uint32_t> steps;
      for (size_t step = 0; step < layout.num_steps; ++step) steps.push_back(static_cast<uint32_t>(lane * 100 + step));
      PackQueryToken(layout, lane, steps, panels.data());
    }
    for (size_t lane = 0; lane < layout.num_lanes(); ++lane) {
      for (size_t step = 0; step < layout.num_steps; ++step) {
        EXPECT_EQ(panels[PanelIndex(layout, lane, step)], lane * 100 + step);
      }
    }
    EXPECT_EQ(std::set<uint32_t>(panels.begin(), panels.end()).size(), panels.size());
  }
}

TEST(PackTest, Bf16StepsHoldTwoColumnsAndPadAnOddOneWithZero) {
  const std::vector<uint16_t> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<uint32_t> even(6, 0xffffffff);
  RowsToSteps(StepForm::kBf16Pairs, ScalarType::kBF16, rows.data(), 2, 6, 3, even.data());
  EXPECT_EQ(even, (std::vector<uint32_t>{0x20001, 0x40003, 0x60005, 0x80007, 0xa0009, 0xc000b}));
  std::vector<uint32_t> odd(8, 0xffffffff);
  RowsToSteps(StepForm::kBf16Pairs, ScalarType::kBF16, rows.data(), 4, 3, 2, odd.data());
  EXPECT_EQ(odd, (std::vector<uint32_t>{0x20001, 3, 0x50004, 6, 0x80007, 9, 0xb000a, 12}));
  std::vector<uint32_t> padded(8, 0xffffffff);
  RowsToSteps(StepForm::kBf16Pairs, ScalarType::kBF16, rows.data(), 2, 3, 4, padded.data());
  EXPECT_EQ(padded, (std::vector<uint32_t>{0x20001, 3, 0, 0, 0x50004, 6, 0, 0}));
}

TEST(PackTest, IntegerColumnsOfEveryForm) {
  const std::vector<int8_t> rows = {1, -2, 3, -4, 127, -127, 7, 8, -9, 10};
  const auto steps_of = [&](StepForm form, size_t num_steps) {
    std::vector<uint32_t> steps(2 * num_steps, 0xffffffff);
    RowsToSteps(form, ScalarType::kI8, rows.data(), 2, 5, num_steps, steps.data());
    return steps;
  };
  EXPECT_EQ(steps_of(StepForm::kI16Pairs, 3),
            (std::vector<uint32_t>{0xfffe0001, 0xfffc0003, 0x7f, 0x0007ff81, 0xfff70008, 10}));
  EXPECT_EQ(steps_of(StepForm::kI8Quads, 2), (std::vector<uint32_t>{0xfc03fe01, 0x7f, 0xf7080781, 10}));
  EXPECT_EQ(steps_of(StepForm::kUnsignedI8Quads, 2), (std::vector<uint32_t>{0x7c837e81, 0xff, 0x77888701, 0x8a}));
  std::vector<uint32_t> floats;
  for (int8_t column : rows) floats.push_back(std::bit_cast<uint32_t>(static_cast<float>(column)));
  EXPECT_EQ(steps_of(StepForm::kF32, 5), floats);
}

TEST(PackTest, RowsHaveWholeMultiplesOfSteps) {
  const auto num_steps = [](StepForm form, size_t step_multiple, size_t dim) {
    return NumSteps({.form = form, .step_multiple = step_multiple}, dim);
  };
  EXPECT_EQ(num_steps(StepForm::kF32, 1, 9), 9u);
  EXPECT_EQ(num_steps(StepForm::kBf16Pairs, 1, 8), 4u);
  EXPECT_EQ(num_steps(StepForm::kBf16Pairs, 1, 9), 5u);
  EXPECT_EQ(num_steps(StepForm::kI8Quads, 1, 8), 2u);
  EXPECT_EQ(num_steps(StepForm::kI8Quads, 1, 9), 3u);
  EXPECT_EQ(num_steps(StepForm::kBf16Pairs, 16, 31), 16u);
  EXPECT_EQ(num_steps(StepForm::kBf16Pairs, 16, 32), 16u);
  EXPECT_EQ(num_steps(StepForm::kBf16Pairs, 16, 33), 32u);
  EXPECT_EQ(num_steps(StepForm::kI8Quads, 16, 64), 16u);
  EXPECT_EQ(num_steps(StepForm::kI8Quads, 16, 65), 32u);
}

// Multiplies packed pairs in plain C++ as the BF16 instruction does, and compares with the inner product. So machines
// without the instruction test the packing, too.
TEST(PackTest, PairedStepsGiveTheInnerProduct) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  const Isa isa = ShapeOf(16, 4);
  for (int32_t dim : {8, 9, 127, 128}) {
    const test::TokenMatrix query = test::RandomTokens(seed, ScalarType::kBF16, dim, 70);
    const test::TokenMatrix document = test::RandomTokens(seed + 1, ScalarType::kBF16, dim, 5);
    const Query call = {.tokens = query.data(), .num_tokens = 70, .top_k = 1};
    const size_t num_steps = NumSteps(kBf16Feed, dim);
    std::vector<QueryStack> stacks = StackQueries({&call, 1}, 1, isa, num_steps, 1024);
    const PanelLayout layout = stacks[0].layout;
    const DocumentsView documents = {.type = ScalarType::kBF16, .dim = dim};
    PackScratch packing;
    std::vector<uint32_t> panels(layout.size());
    PackStack({&call, 1}, StepForm::kBf16Pairs, documents, &packing, &stacks[0], panels.data());
    std::vector<uint32_t> scratch(24 * num_steps);
    const RowBlock block = MakeRowBlock(kBf16Feed, ScalarType::kBF16, document.data(), 5, dim, scratch.data());
    ASSERT_EQ(block.rows, scratch.data());
    for (size_t token = 0; token < 24; ++token) {
      const auto document_token = static_cast<int64_t>(std::min<size_t>(token, 4));  // padding repeats the last row
      for (size_t lane = 0; lane < layout.num_lanes(); ++lane) {
        double paired = 0;
        for (size_t step = 0; step < num_steps; ++step) {
          const uint32_t a = scratch[token * num_steps + step];
          const uint32_t b = panels[PanelIndex(layout, lane, step)];
          paired += static_cast<double>(Bf16ToF32(a & 0xffff)) * Bf16ToF32(b & 0xffff);
          paired += static_cast<double>(Bf16ToF32(a >> 16)) * Bf16ToF32(b >> 16);
        }
        double plain = 0;
        if (lane < 70) {
          const std::vector<float> query_row = query.Row(static_cast<int64_t>(lane));
          const std::vector<float> document_row = document.Row(document_token);
          for (int32_t column = 0; column < dim; ++column) {
            plain += static_cast<double>(query_row[column]) * document_row[column];
          }
        }
        ASSERT_EQ(paired, plain) << "document token " << token << ", lane " << lane << ", d " << dim;
      }
    }
  }
}

TEST(RowBlockTest, RepeatsTheLastRowUpToAWholeTile) {
  const test::TokenMatrix rows = test::RandomTokens(1, ScalarType::kF32, 8, 24);
  const Feed feed = {.form = StepForm::kF32, .row_multiple = 12};
  for (size_t count : {1, 11, 12, 13, 24}) {
    const size_t padded = (count + 11) / 12 * 12;
    std::vector<uint32_t> scratch(padded * 8, 0xffffffff);
    const RowBlock block = MakeRowBlock(feed, ScalarType::kF32, rows.data(), count, 8, scratch.data());
    EXPECT_EQ(block.rows, scratch.data());
    EXPECT_EQ(block.num_rows, count);
    EXPECT_EQ(block.num_steps, 8u);
    for (size_t row = 0; row < padded; ++row) {
      const void* const expected = rows.row(static_cast<int64_t>(std::min(row, count - 1)));
      EXPECT_EQ(std::memcmp(scratch.data() + row * 8, expected, 32), 0) << "row " << row << " of " << count;
    }
  }
}

TEST(RowBlockTest, BlocksAreWholeTilesForEveryDimension) {
  for (size_t row_multiple : {4, 12, 24}) {
    const Feed feed = {.form = StepForm::kF32, .row_multiple = row_multiple};
    for (size_t steps : {4, 8, 64, 128, 4096}) {
      EXPECT_GE(RowsPerBlock(feed, steps), row_multiple);
      EXPECT_EQ(RowsPerBlock(feed, steps) % row_multiple, 0u);
    }
  }
}

TEST(RowBlockTest, RowsStayInPlaceWhereTheyAreStoredAsWholeTiles) {
  const Feed feed = {.form = StepForm::kBf16Pairs, .row_multiple = 16, .step_multiple = 16, .in_place = true};
  EXPECT_TRUE(StaysInPlace(feed, ScalarType::kBF16, 64));
  EXPECT_FALSE(StaysInPlace(feed, ScalarType::kBF16, 80));
  EXPECT_FALSE(StaysInPlace(feed, ScalarType::kF16, 64));
  EXPECT_FALSE(StaysInPlace(kBf16Feed, ScalarType::kBF16, 64));
  const test::TokenMatrix rows = test::RandomTokens(1, ScalarType::kBF16, 64, 17);
  std::vector<uint32_t> scratch(16 * 32, 0xffffffff);
  EXPECT_EQ(MakeRowBlock(feed, ScalarType::kBF16, rows.data(), 16, 64, scratch.data()).rows, rows.data());
  EXPECT_EQ(MakeRowBlock(feed, ScalarType::kBF16, rows.data(), 17, 64, scratch.data()).rows, rows.data());
  const RowBlock few = MakeRowBlock(feed, ScalarType::kBF16, rows.data(), 15, 64, scratch.data());
  ASSERT_EQ(few.rows, scratch.data());
  EXPECT_EQ(std::memcmp(scratch.data() + 14 * 32, rows.row(14), 128), 0);
  EXPECT_EQ(std::memcmp(scratch.data() + 15 * 32, rows.row(14), 128), 0);
}

TEST(RowBlockTest, NoBlockInPlaceIsSmallerThanATile) {
  const Feed feed = {.form = StepForm::kI8Quads, .row_multiple = 16, .step_multiple = 16, .in_place = true};
  for (size_t num_rows = 1; num_rows < 300; ++num_rows) {
    for (bool in_place : {false, true}) {
      size_t left = num_rows;
      while (left > 0) {
        const size_t count = BlockRows(feed, in_place, 96, left);
        ASSERT_LE(count, in_place ? 96 + 15 : 96);
        if (in_place && num_rows >= 16) {
          ASSERT_GE(count, 16u) << left << " of " << num_rows;
        }
        left -= count;
      }
    }
  }
}

TEST(QueryStackTest, QueriesWithTheSameCandidatesShareAStack) {
  const Isa isa = ShapeOf(8, 4);
  const std::vector<uint32_t> list = {3, 1, 2};
  const std::vector<uint32_t> equal_list = {3, 1, 2};
  const std::vector<uint32_t> other_list = {3, 1};
  const auto query = [](int32_t num_tokens, const std::vector<uint32_t>* ordinals) {
    Query result;
    result.num_tokens = num_tokens;
    if (ordinals != nullptr) {
      result.ordinals = ordinals->data();
      result.num_candidates = static_cast<int64_t>(ordinals->size());
    }
    return result;
  };
  const Query queries[] = {query(5, &list), query(7, nullptr), query(9, &equal_list), query(1, &other_list),
                           query(2, nullptr)};
  const std::vector<QueryStack> stacks = StackQueries(queries, 10, isa, 16, 1024);
  ASSERT_EQ(stacks.size(), 3u);
  EXPECT_EQ(stacks[0].query_indices, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(stacks[0].first_lanes, (std::vector<size_t>{0, 5}));
  EXPECT_EQ(stacks[0].num_candidates, 3u);
  EXPECT_EQ(stacks[0].layout.num_vectors, 2u);
  EXPECT_EQ(stacks[1].query_indices, (std::vector<size_t>{1, 4}));
  EXPECT_EQ(stacks[1].num_candidates, 10u);
  EXPECT_EQ(stacks[2].num_candidates, 2u);
}

TEST(QueryStackTest, StacksStopGrowingAtTheLimit) {
  const Isa isa = ShapeOf(8, 4);
  std::vector<Query> queries(5);
  for (Query& query : queries) query.num_tokens = 40;
  queries[2].num_tokens = 500;  // more than the limit, so that it has a stack of its own
  const std::vector<QueryStack> stacks = StackQueries(queries, 10, isa, 16, 100);
  ASSERT_EQ(stacks.size(), 3u);
  EXPECT_EQ(stacks[0].query_indices, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(stacks[1].query_indices, (std::vector<size_t>{2}));
  EXPECT_EQ(stacks[2].query_indices, (std::vector<size_t>{3, 4}));
}

// FP32 addition is not associative, and the terms have similar magnitudes. So another order of additions would give
// another sum.
TEST(SumMaximaTest, AddsQueryTilesByAButterflyAndTheirSumsInOrder) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> maxima(1000);
  std::vector<float> weights(1000);
  for (float& maximum : maxima) maximum = value(generator);
  for (float& weight : weights) weight = value(generator);
  for (size_t count : {1, 2, 31, 32, 33, 64, 70, 300, 1000}) {
    for (const float* weight : {static_cast<const float*>(nullptr), std::as_const(weights).data()}) {
      float expected = 0;
      for (size_t first = 0; first < count; first += 32) {
        // Simulates the butterfly sum of 32 GPU lanes. In each of five steps, each lane adds the value of the lane
        // whose number differs in one bit, from the highest bit down.
        std::vector<float> lanes(32, 0.0f);
        for (size_t lane = 0; lane < 32 && first + lane < count; ++lane) {
          lanes[lane] = maxima[first + lane] * (weight == nullptr ? 1.0f : weight[first + lane]);
        }
        for (size_t distance : {16, 8, 4, 2, 1}) {
          const std::vector<float> before = lanes;
          for (size_t lane = 0; lane < 32; ++lane) lanes[lane] = before[lane] + before[lane ^ distance];
        }
        expected += lanes[0];
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(SumMaxima(maxima.data(), weight, count)), std::bit_cast<uint32_t>(expected));
    }
  }
}

TEST(SumMaximaTest, ScalesEveryBlock) {
  std::vector<float> maxima(70);
  for (size_t idx = 0; idx < maxima.size(); ++idx) maxima[idx] = 1.0f / static_cast<float>(3 + idx);
  constexpr float kScale = 0.7f;
  float expected = 0;
  for (size_t first = 0; first < maxima.size(); first += 32) {
    expected += SumMaxima(maxima.data() + first, nullptr, std::min<size_t>(32, maxima.size() - first)) * kScale;
  }
  EXPECT_EQ(SumMaxima(maxima.data(), nullptr, maxima.size(), kScale), expected);
  const float negative = -1;
  EXPECT_EQ(std::bit_cast<uint32_t>(SumMaxima(&negative, nullptr, 1, 0)), 0u);
}

TEST(ThreadPoolTest, GivesEachCallDistinctSlotsAndReturnsWhenAllAreDone) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.parallelism(), 4);
  for (int run = 0; run < 200; ++run) {
    std::vector<int> uses(4, 0);  // plain integers, since each slot has its own
    std::atomic<int> next{0};
    std::vector<int> done(100, 0);
    pool.Run([&](int slot) {
      ++uses[slot];
      for (int item = next++; item < 100; item = next++) ++done[item];
    });
    EXPECT_EQ(uses[0], 1);
    for (int count : uses) EXPECT_LE(count, 1);
    EXPECT_EQ(done, std::vector<int>(100, 1));
  }
}

TEST(ThreadPoolTest, ServesConcurrentCallers) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&pool] {
      for (int run = 0; run < 200; ++run) {
        std::atomic<int> next{0};
        std::vector<int> done(20, 0);
        pool.Run([&](int) {
          for (int item = next++; item < 20; item = next++) ++done[item];
        });
        ASSERT_EQ(done, std::vector<int>(20, 1));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Makes a pool of 1000 threads in an address space that has room for a few stacks only. Exits with 0 if the pool kept
// the threads that could start and works with them.
[[noreturn]] void StartThreadsInLittleMemory() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit stack = {};
  getrlimit(RLIMIT_STACK, &stack);
  const rlim_t stack_bytes = stack.rlim_cur == RLIM_INFINITY ? rlim_t{8} << 20 : stack.rlim_cur;
  const rlim_t bytes = pages * sysconf(_SC_PAGESIZE) + 6 * stack_bytes;
  const rlimit memory = {bytes, bytes};
  setrlimit(RLIMIT_AS, &memory);
  ThreadPool pool(1000);
  std::atomic<int> largest_slot{0};
  pool.Run([&](int slot) {
    int seen = largest_slot.load();
    while (seen < slot && !largest_slot.compare_exchange_weak(seen, slot)) {
    }
  });
  const bool some = pool.parallelism() > 1 && pool.parallelism() < 1000;
  _exit(some && largest_slot < pool.parallelism() ? 0 : 1);
}

TEST(ThreadPoolTest, KeepsTheThreadsThatStartedWhereTheNextDoesNot) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer: sanitizers take more address space than the test leaves";
  EXPECT_EXIT(StartThreadsInLittleMemory(), testing::ExitedWithCode(0), "");
}

TEST(ThreadPoolTest, OneThreadRunsOnTheCaller) {
  ThreadPool pool(1);
  std::thread::id runner;
  pool.Run([&](int slot) {
    EXPECT_EQ(slot, 0);
    runner = std::this_thread::get_id();
  });
  EXPECT_EQ(runner, std::this_thread::get_id());
}

}  // namespace
}  // namespace maxsim::cpu
