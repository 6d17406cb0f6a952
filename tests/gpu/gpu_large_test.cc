// Collections past the ranges of 32-bit numbers, filled on the device: elements, bytes and tokens.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/testing/random_fill.h"
#include "kernels/reference.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract_runner.h"

namespace maxsim::test {
namespace {

class GpuLargeTest : public GpuTest {
 protected:
  // Random documents of equal length in device memory; skips the test (and returns null) where there is no room.
  std::unique_ptr<cuda::CudaDocuments> Make(ScalarType type, int32_t dim, int64_t count, int64_t tokens) {
    const cuda::CudaDocuments::Shape shape{type, dim, count, count * tokens};
    constexpr size_t kOthers = size_t{2} << 30;
    if (*backend().FreeBytes() < shape.token_bytes() + shape.offset_bytes() + kOthers) return nullptr;
    cuda::DeviceBuffer token_memory = *cuda::DeviceBuffer::Allocate(shape.token_bytes(), "test");
    cuda::DeviceBuffer offsets = *cuda::DeviceBuffer::Allocate(shape.offset_bytes(), "test");
    const cuda::Stream stream = *cuda::Stream::Create();
    EXPECT_EQ(cuda::FillRandom(type, token_memory.as(), count * tokens * dim, TestSeed(), 0.1f, stream.get()),
              cudaSuccess);
    EXPECT_EQ(cuda::FillOffsets(offsets.as<int64_t>(), count, tokens, stream.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    return std::make_unique<cuda::CudaDocuments>(backend().device(), shape, std::move(token_memory),
                                                 std::move(offsets));
  }

  // The documents `ordinals` of a set that Make made, in host memory, packed one behind the other.
  static RandomDocuments Fetch(const cuda::CudaDocuments& documents, const std::vector<uint32_t>& ordinals) {
    const int64_t tokens = documents.num_tokens() / documents.num_documents();
    RandomDocuments some =
        MakeDocuments(0, documents.type(), documents.dim(), std::vector<int64_t>(ordinals.size(), tokens));
    const size_t bytes = static_cast<size_t>(tokens * documents.row_bytes());
    for (size_t i = 0; i < ordinals.size(); ++i) {
      EXPECT_EQ(cudaMemcpy(static_cast<char*>(some.tokens.data()) + i * bytes,
                           documents.device_tokens() + ordinals[i] * bytes, bytes, cudaMemcpyDeviceToHost),
                cudaSuccess);
    }
    return some;
  }

  void Check(const cuda::CudaDocuments& documents, const std::vector<uint32_t>& ordinals) {
    const RandomDocuments some = Fetch(documents, ordinals);
    const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
    for (int32_t num_tokens : {32, 70}) {
      const RandomQuery query = MakeQuery(TestSeed() + 1, documents.type(), documents.dim(), num_tokens);
      // Positions are indices into the list on one side and ordinals of the fetched set on the other.
      const std::vector<Scored> actual = TopK(*executor, documents, {query.view(1000, &ordinals)})[0];
      ExpectMatchesReference(some, query.view(1000), actual);
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
};

TEST_F(GpuLargeTest, ElementsAndBytesPastThirtyTwoBits) {
  constexpr int64_t kCount = 200000, kTokens = 100;
  const auto documents = Make(ScalarType::kF16, 128, kCount, kTokens);
  if (documents == nullptr) GTEST_SKIP() << "the device has no room for 5 GB of documents";
  ASSERT_GT(kCount * kTokens * 128, int64_t{1} << 31);
  const uint32_t around_31 = (1u << 31) / (kTokens * 128), around_32 = (1ull << 32) / (kTokens * 256);
  Check(*documents, {0, around_31 - 1, around_31, around_31 + 1, around_32, around_32 + 1, kCount - 2, kCount - 1});

  // The whole shard: the best documents' scores are those they have in a list.
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const RandomQuery query = MakeQuery(TestSeed() + 3, ScalarType::kF16, 128, 32);
  const std::vector<Scored> best = TopK(*executor, *documents, {query.view(50)})[0];
  ASSERT_EQ(best.size(), 50u);
  std::vector<uint32_t> ordinals;
  for (const Scored& scored : best) ordinals.push_back(scored.position);
  std::vector<Scored> listed = TopK(*executor, *documents, {query.view(50, &ordinals)})[0];
  for (Scored& scored : listed) scored.position = ordinals[scored.position];
  ExpectSameBits(best, listed);
}

TEST_F(GpuLargeTest, TokensPastThirtyTwoBits) {
  constexpr int64_t kCount = (int64_t{1} << 32) / kMaxDocumentTokens + 3;
  const auto documents = Make(ScalarType::kF16, 8, kCount, kMaxDocumentTokens);
  if (documents == nullptr) GTEST_SKIP() << "the device has no room for 69 GB of documents";
  ASSERT_GT(documents->num_tokens(), int64_t{1} << 32);
  Check(*documents, {kCount - 1, kCount - 2, 32767, 32768, 1});
}

}  // namespace
}  // namespace maxsim::test
