// Compares selection of the best scores on the device with sorting on the host. The test makes up the scores.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/plan/select.h"
#include "tests/gpu/gpu_topk_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

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
    // Rounds the scores to a few values, so that the k-th best is one of thousands of equal scores.
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

// The numbers of scores are just below and above those at which the plan changes, with every remainder modulo four.
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

// The distribution of scores over buckets, lists and bins is the worst possible.
TEST_F(GpuTopKTest, AdversarialScores) {
  std::mt19937_64 random(TestSeed());
  for (size_t count : {size_t{5000}, size_t{50001}, size_t{1000002}}) {
    const std::vector<float> normal = Normal(TestSeed() + count, count);
    std::vector<std::vector<float>> kinds;
    // The best scores are all in one split, however many splits there are.
    for (int32_t k : {100, 1000, 10000}) {
      const SelectPlan plan = PlanSelect(static_cast<int64_t>(count), k, 1, backend().device()->limits);
      std::vector<float>& one_split = kinds.emplace_back(normal);
      for (size_t i = 0; i < count; ++i) {
        if (i / 128 % static_cast<size_t>(plan.splits) == 0) one_split[i] += 100.0f;
      }
    }
    // Four inputs: the last fifth of the scores is the best, or every 4th, every 128th or every 4,096th score is among
    // the best.
    std::vector<float>& block = kinds.emplace_back(normal);
    for (size_t i = count - count / 5; i < count; ++i) block[i] += 100.0f;
    for (size_t period : {4, 128, 4096}) {
      std::vector<float>& periodic = kinds.emplace_back(normal);
      for (size_t i = 0; i < count; i += period) periodic[i] += 100.0f;
    }
    // Two inputs: one score is far above and one far below all others, or the scores cover the whole range of floats.
    std::vector<float>& outliers = kinds.emplace_back(normal);
    outliers[count / 3] = 1e30f;
    outliers[count / 2] = -1e30f;
    std::vector<float>& wide = kinds.emplace_back(normal);
    for (float& score : wide) {
      score = std::ldexp(random() % 2 == 0 ? score : -score, static_cast<int>(random() % 240) - 120);
    }
    // The scores are clusters of equal values. The k-th best score is inside of, between or below the clusters.
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

// Takes every code path of a selection. The test is small enough for the sanitizers.
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
  Check({{first(5000), 2000}});   // few thread blocks, by histograms
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
      ASSERT_EQ(actual[i], expected[i]);  // compared by value, because a zero loses its sign
      ASSERT_FALSE(actual[i].score == 0.0f && std::signbit(actual[i].score));
    }
  }
}

}  // namespace
}  // namespace maxsim::test
