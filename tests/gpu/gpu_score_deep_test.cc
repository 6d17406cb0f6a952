// Tests the deep kernels at widths, lengths and limits.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "tests/gpu/gpu_score_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

TEST_F(GpuScoreTest, DeepTilesOnce) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  for (int32_t dim : {136, 264, 272}) CheckHopperTiles(dim, {3, 64, 129, 1, 600, 193});
}

// Documents have many lengths. Queries have one token less than, as many as, or one more than one or two row tiles
// hold. The dimensions are below and above 256 and 320, up to which the query can stay in shared memory. Some
// dimensions are multiples of a column chunk.
TEST_F(GpuScoreTest, DeepTilesGiveTheSameBitsAtEveryLength) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
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
        executor->tuning().tiles = Only(num_tokens > 64 ? ScoreTile::kRows128 : ScoreTile::kRows64);
        const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(kMaxTopK)})[0];
        for (ScoreTile tile : HopperTiles(type, dim)) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << " d " << dim << ", query tokens " << num_tokens << ", " << Name(tile));
          executor->tuning().tiles = Only(tile);
          ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(kMaxTopK)})[0]);
          EXPECT_EQ(executor->trace().plan.tile, tile);
        }
      }
    }
  }
}

// The call has the longest possible query, and several documents of the maximum length next to short ones.
TEST_F(GpuScoreTest, DeepTilesGiveTheSameBitsAtTheLimits) {
  if (!backend().device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  std::vector<int64_t> lengths(40, 100);
  for (size_t i : {3, 4, 20}) lengths[i] = kMaxDocumentTokens;
  for (int32_t dim : {136, 768}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, dim, lengths);
    const std::unique_ptr<Documents> loaded = Load(documents);
    for (int32_t num_tokens : {40, 256, kMaxQueryTokens}) {
      const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, dim, num_tokens);
      executor->tuning().tiles = Only(ScoreTile::kRows128);
      const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(40)})[0];
      for (ScoreTile tile : HopperTiles(ScalarType::kF16, dim)) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", query tokens " << num_tokens << ", " << Name(tile));
        executor->tuning().tiles = Only(tile);
        ExpectSameBits(expected, TopK(*executor, *loaded, {query.view(40)})[0]);
      }
    }
  }
}

}  // namespace
}  // namespace maxsim::test
