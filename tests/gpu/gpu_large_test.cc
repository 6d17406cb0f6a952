// Tests collections with more than 2^31 elements, bytes or tokens. The test generates them on the device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/testing/random_fill.h"
#include "kernels/reference.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

std::vector<int64_t> EqualOffsets(int64_t count, int64_t tokens) {
  std::vector<int64_t> offsets(1, 0);
  for (int64_t n = 0; n < count; ++n) offsets.push_back(offsets.back() + tokens);
  return offsets;
}

class GpuLargeTest : public GpuTest {
 protected:
  static constexpr uint64_t kRotationSeed = 77;

  // Makes random documents in device memory. Returns null if the device has too little free memory.
  std::unique_ptr<cuda::CudaDocuments> Make(ScalarType type, int32_t dim, const std::vector<int64_t>& offsets) {
    const cuda::CudaDocuments::Shape shape{type, dim, static_cast<int64_t>(offsets.size()) - 1, offsets.back()};
    constexpr size_t kOthers = size_t{2} << 30;
    if (*backend().FreeBytes() < shape.total_bytes() + kOthers) return nullptr;
    cuda::DeviceBuffer tokens = *cuda::DeviceBuffer::Allocate(shape.token_bytes(), "test");
    cuda::DeviceBuffer device_offsets = *cuda::DeviceBuffer::Allocate(shape.offset_bytes(), "test");
    cuda::DeviceBuffer scales = *cuda::DeviceBuffer::Allocate(shape.scale_bytes(), "test");
    const cuda::Stream stream = *cuda::Stream::Create();
    EXPECT_EQ(cuda::FillRandom(type, tokens.as(), shape.num_tokens * dim, TestSeed(), 0.1f, stream.get()), cudaSuccess);
    if (type == ScalarType::kI8) {
      EXPECT_EQ(cuda::FillScales(scales.as<float>(), shape.num_documents, TestSeed(), 0.001f, stream.get()),
                cudaSuccess);
    }
    EXPECT_EQ(cudaMemcpy(device_offsets.as(), offsets.data(), shape.offset_bytes(), cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    return std::make_unique<cuda::CudaDocuments>(backend().device(), shape, std::move(tokens),
                                                 std::move(device_offsets), std::move(scales), kRotationSeed);
  }

  // Copies the documents `ordinals` from device memory (see Make) to host memory, one after another without gaps.
  static RandomDocuments Fetch(const cuda::CudaDocuments& documents, const std::vector<uint32_t>& ordinals) {
    RandomDocuments some;
    some.offsets.push_back(0);
    some.rotation_seed = kRotationSeed;
    std::vector<int64_t> first_rows;
    for (const uint32_t ordinal : ordinals) {
      int64_t range[2] = {};
      EXPECT_EQ(cudaMemcpy(range, documents.device_offsets() + ordinal, sizeof(range), cudaMemcpyDeviceToHost),
                cudaSuccess);
      first_rows.push_back(range[0]);
      some.offsets.push_back(some.offsets.back() + range[1] - range[0]);
    }
    some.tokens = TokenMatrix(documents.type(), documents.dim(), some.offsets.back());
    const int64_t row_bytes = documents.row_bytes();
    for (size_t i = 0; i < ordinals.size(); ++i) {
      EXPECT_EQ(
          cudaMemcpy(static_cast<char*>(some.tokens.data()) + some.offsets[i] * row_bytes,
                     documents.device_tokens() + first_rows[i] * row_bytes,
                     static_cast<size_t>(some.length(static_cast<int64_t>(i)) * row_bytes), cudaMemcpyDeviceToHost),
          cudaSuccess);
      if (documents.type() != ScalarType::kI8) continue;
      float scale = 0;
      EXPECT_EQ(cudaMemcpy(&scale, documents.device_scales() + ordinals[i], sizeof(scale), cudaMemcpyDeviceToHost),
                cudaSuccess);
      some.scales.push_back(scale);
    }
    return some;
  }

  void Check(const cuda::CudaDocuments& documents, const std::vector<uint32_t>& ordinals) {
    const RandomDocuments some = Fetch(documents, ordinals);
    const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
    for (int32_t num_tokens : {32, 70}) {
      const RandomQuery query = MakeQuery(TestSeed() + 1, documents.type(), documents.dim(), num_tokens);
      for (const uint32_t tiles : {kAnyTile, kTilesOfLongCalls}) {
        executor->tuning().tiles = tiles;
        // In `actual`, a position is an index into the list. In the reference, it is an ordinal in `some`. Both are
        // equal, because `some` has the documents in the order of the list.
        const std::vector<Scored> actual = TopK(*executor, documents, {query.view(1000, &ordinals)})[0];
        ExpectMatchesReference(some, query.view(1000), actual);
      }
    }
    const RandomQuery query = MakeQuery(TestSeed() + 2, documents.type(), documents.dim(), 3);
    std::vector<TokenMatch> matches(3 * ordinals.size());
    ASSERT_TRUE(executor->Align(documents, query.view(1), ordinals, absl::MakeSpan(matches)).ok());
    for (size_t i = 0; i < ordinals.size(); ++i) {
      const std::vector<ReferenceMatch> expected = ReferenceAlign(some.view(), query.view(1), static_cast<uint32_t>(i));
      for (size_t token = 0; token < 3; ++token) {
        EXPECT_NEAR(matches[i * 3 + token].similarity, expected[token].similarity, 1e-5);
      }
    }
  }

  // Searches the whole shard. The best documents must have the same scores as in a call that lists these documents.
  void CheckBest(const cuda::CudaDocuments& documents) {
    const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
    const RandomQuery query = MakeQuery(TestSeed() + 3, documents.type(), documents.dim(), 32);
    const std::vector<Scored> best = TopK(*executor, documents, {query.view(50)})[0];
    ASSERT_EQ(best.size(), 50u);
    std::vector<uint32_t> ordinals;
    for (const Scored& scored : best) ordinals.push_back(scored.position);
    std::vector<Scored> listed = TopK(*executor, documents, {query.view(50, &ordinals)})[0];
    for (Scored& scored : listed) scored.position = ordinals[scored.position];
    ExpectSameBits(best, listed);
  }
};

TEST_F(GpuLargeTest, ElementsAndBytesPastThirtyTwoBits) {
  constexpr int64_t kCount = 200000, kTokens = 100;
  const auto documents = Make(ScalarType::kF16, 128, EqualOffsets(kCount, kTokens));
  if (documents == nullptr) GTEST_SKIP() << "needs GPU memory: 5 GB of documents";
  ASSERT_GT(kCount * kTokens * 128, int64_t{1} << 31);
  const uint32_t around_31 = (1u << 31) / (kTokens * 128), around_32 = (1ull << 32) / (kTokens * 256);
  Check(*documents, {0, around_31 - 1, around_31, around_31 + 1, around_32, around_32 + 1, kCount - 2, kCount - 1});
  CheckBest(*documents);
}

TEST_F(GpuLargeTest, TokensPastThirtyTwoBits) {
  constexpr int64_t kCount = (int64_t{1} << 32) / kMaxDocumentTokens + 3;
  const auto documents = Make(ScalarType::kF16, 8, EqualOffsets(kCount, kMaxDocumentTokens));
  if (documents == nullptr) GTEST_SKIP() << "needs GPU memory: 69 GB of documents";
  ASSERT_GT(documents->num_tokens(), int64_t{1} << 32);
  Check(*documents, {kCount - 1, kCount - 2, 32767, 32768, 1});
}

// The documents have 1 to 65,535 tokens, and together more than 2^31. Each row has 48 bytes.
TEST_F(GpuLargeTest, QuantizedTokensPastThirtyOneBits) {
  constexpr int64_t kTokens = (int64_t{1} << 31) + 200000;
  constexpr int64_t kLengths[] = {1, kMaxDocumentTokens - 1, 300, 65, 20000};
  std::vector<int64_t> offsets(1, 0);
  uint32_t across = 0;  // the document that holds token 2^31
  while (offsets.back() < kTokens) {
    if (offsets.back() <= int64_t{1} << 31) across = static_cast<uint32_t>(offsets.size() - 1);
    offsets.push_back(offsets.back() + kLengths[offsets.size() % 5]);
  }
  const auto documents = Make(ScalarType::kI8, 48, offsets);
  if (documents == nullptr) GTEST_SKIP() << "needs GPU memory: 103 GB of documents";
  const auto last = static_cast<uint32_t>(documents->num_documents() - 1);
  Check(*documents, {0, 1, across - 1, across, across + 1, last - 1, last});
  CheckBest(*documents);
}

}  // namespace
}  // namespace maxsim::test
