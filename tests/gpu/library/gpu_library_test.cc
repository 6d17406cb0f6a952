// Compares the C library on a GPU with FP64: scores, matches and gradients of every layout, at all edges of tiles.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/maxsim.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/library/gpu_library_fixture.h"
#include "tests/support/library/library_case.h"

namespace maxsim::test {
namespace {

TEST_F(GpuLibraryTest, TheDeviceIsThere) {
  int32_t available = 0;
  EXPECT_EQ(maxsim_device_available(MAXSIM_CUDA, &available), MAXSIM_OK);
  EXPECT_EQ(available, 1);
}

TEST_F(GpuLibraryTest, ScoresMatchesAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const LibraryShape& shape : LibraryShapes()) ExpectShape(shape, TestSeed());
}

TEST_F(GpuLibraryTest, EveryDimensionIsScored) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16, MAXSIM_I8}) {
    // The dimensions cover every case of the kernels: rows of a multiple of 16 bytes or not, a whole number of steps or
    // not, one or several column chunks, and sums that are added in one or several parts.
    for (const int32_t dim : {1,   7,   8,   16,  17,  24,  31,  32,   48,   63,   64,   65,   96,   100,
                              127, 128, 129, 136, 256, 512, 768, 1000, 1024, 1025, 1040, 2048, 2056, 4096}) {
      LibraryShape shape;
      shape.type = type;
      shape.dim = dim;
      shape.num_queries = 2;
      shape.num_documents = 2;
      shape.max_query_tokens = dim % 3 == 0 ? 3 : 40;
      shape.max_document_tokens = 70;
      shape.ties = dim <= 256;
      ExpectShape(shape, TestSeed() + dim);
    }
  }
}

TEST_F(GpuLibraryTest, EveryTileEdgeIsScored) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16, MAXSIM_I8}) {
    for (const int64_t query_tokens : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 97, 128, 129, 200}) {
      for (const int64_t document_tokens : {1, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 192, 193, 200}) {
        LibraryShape shape;
        shape.type = type;
        shape.dim = 16;
        shape.num_queries = 2;
        shape.num_documents = 3;
        shape.max_query_tokens = query_tokens;
        shape.max_document_tokens = document_tokens;
        shape.ties = true;
        shape.weights = query_tokens % 2 == 0;
        ExpectShape(shape, TestSeed() + query_tokens);
      }
    }
  }
}

TEST_F(GpuLibraryTest, EveryNumberOfQueryTilesIsScored) {
  for (const int32_t pairing : {MAXSIM_ALL, MAXSIM_LISTS}) {
    for (const int64_t num_queries : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17}) {
      for (const int64_t query_tokens : {20, 40, 130, 260}) {
        LibraryShape shape;
        constexpr int32_t kTypes[] = {MAXSIM_F16, MAXSIM_BF16, MAXSIM_I8};
        shape.type = kTypes[(num_queries + query_tokens / 20) % 3];
        shape.document_scale_of = num_queries % 2 == 0 ? MAXSIM_SCALE_PER_TOKEN : MAXSIM_SCALE_PER_SEQUENCE;
        shape.scaled_tokens = num_queries % 4 == 3;
        shape.dim = num_queries % 3 == 0 ? 64 : 128;
        shape.pairing = pairing;
        shape.num_queries = num_queries;
        shape.num_documents = 5;
        shape.list_length = pairing == MAXSIM_LISTS ? 3 : 0;
        shape.candidates = pairing == MAXSIM_LISTS;
        shape.max_query_tokens = query_tokens;
        shape.max_document_tokens = 110;
        shape.lengths = true;
        shape.document_mask = query_tokens == 40;
        shape.query_mask = query_tokens == 130;
        shape.weights = true;
        shape.ties = query_tokens == 260;
        ExpectShape(shape, TestSeed() + num_queries);
      }
    }
  }
}

TEST_F(GpuLibraryTest, AThreadBlockHasManyDocumentsOfAllLengths) {
  LibraryShape shape;
  shape.type = MAXSIM_F16;
  shape.dim = 32;
  shape.num_queries = 40;
  shape.num_documents = 700;  // each thread block has several
  shape.max_query_tokens = 70;
  shape.max_document_tokens = 130;
  shape.lengths = true;
  shape.document_mask = true;
  shape.query_mask = true;
  shape.ties = true;
  const LibraryCase library_case(shape, TestSeed());
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  std::vector<float> scores(library_case.num_pairs());
  std::vector<int32_t> argmax(library_case.num_pairs() * shape.max_query_tokens);
  ASSERT_EQ(maxsim_forward(&library_case.call, scores.data(), argmax.data()), MAXSIM_OK) << maxsim_last_error();
  EXPECT_EQ(device.argmax(), argmax);
  EXPECT_EQ(device.scores(), scores);  // sums of small integers are exact in any order
  device.Backward(stream_.get());
  ExpectGradients(library_case, argmax, device.gradients());
}

TEST_F(GpuLibraryTest, ScoresHaveTheBitsOfTheService) {
  for (const ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
    for (const int32_t dim : {96, 128, 1040}) {
      LibraryShape shape;
      shape.type = static_cast<int32_t>(type);
      shape.dim = dim;
      shape.num_queries = 1;
      shape.num_documents = 30;
      shape.max_query_tokens = 70;
      shape.max_document_tokens = 80;
      shape.weights = true;
      SCOPED_TRACE(testing::PrintToString(shape));
      const LibraryCase library_case(shape, TestSeed());
      DeviceCase device(library_case);
      device.Forward(stream_.get());
      const std::vector<float> scores = device.scores();

      std::vector<int64_t> offsets;
      for (int64_t document = 0; document <= shape.num_documents; ++document) {
        offsets.push_back(document * shape.max_document_tokens);
      }
      absl::StatusOr<std::unique_ptr<Documents>> documents =
          backend().Load({.type = type,
                          .dim = dim,
                          .num_documents = shape.num_documents,
                          .tokens = library_case.documents.rows.data(),
                          .offsets = offsets.data()},
                         Tier::kDevice, nullptr);
      ASSERT_TRUE(documents.ok()) << documents.status();
      ExecutorOptions options;
      options.max_dim = dim;
      const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor(options);
      const Query query = {.tokens = library_case.queries.rows.data(),
                           .weights = library_case.weights.data(),
                           .num_tokens = static_cast<int32_t>(shape.max_query_tokens),
                           .top_k = static_cast<int32_t>(shape.num_documents)};
      const std::vector<std::vector<Scored>> ranked = TopK(*executor, **documents, {query});
      ASSERT_EQ(ranked[0].size(), scores.size());
      for (const Scored& scored : ranked[0]) {
        EXPECT_EQ(std::bit_cast<uint32_t>(scored.score), std::bit_cast<uint32_t>(scores[scored.position]))
            << "document " << scored.position << ": " << scored.score << " and " << scores[scored.position];
      }
    }
  }
}

TEST_F(GpuLibraryTest, ASumThatOverflowsIsTakenForNoEmptyDocument) {
  LibraryShape shape;
  shape.num_queries = 4;
  shape.num_documents = 5;
  shape.max_query_tokens = 70;  // three query tiles, whose sums are kept in the workspace
  shape.document_mask = true;
  shape.weights = true;
  LibraryCase library_case(shape, TestSeed());
  for (LibraryTokens* tokens : {&library_case.queries, &library_case.documents}) {
    auto* const values = reinterpret_cast<float*>(tokens->rows.data());
    std::fill(values, values + tokens->rows.size() / sizeof(float), 1.0f);
  }
  // For each query: the weights of its first and last query tile (32 tokens), and its expected score. Every similarity
  // is 16.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const struct {
    float first;
    float last;
    float score;
  } queries[] = {{1, 3e38f, kInfinity},
                 {-3e38f, 1, -kInfinity},
                 {3e38f, -3e38f, std::numeric_limits<float>::quiet_NaN()},
                 {1, 1, 70 * 16}};
  for (int64_t row = 0; row < library_case.queries.tokens.num_rows; ++row) {
    const int64_t token = row % shape.max_query_tokens;
    const auto& query = queries[row / shape.max_query_tokens];
    library_case.weights[row] = token < 32 ? query.first : token < 64 ? 1.0f : query.last;
  }
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  const std::vector<float> scores = device.scores();
  std::vector<float> host_scores(library_case.num_pairs());
  ASSERT_EQ(maxsim_forward(&library_case.call, host_scores.data(), nullptr), MAXSIM_OK) << maxsim_last_error();
  for (int64_t pair = 0; pair < library_case.num_pairs(); ++pair) {
    SCOPED_TRACE("pair " + std::to_string(pair));
    const int64_t begin = library_case.DocumentOf(pair) * shape.max_document_tokens;
    const auto mask = library_case.documents.mask.begin() + begin;
    const bool empty = std::count(mask, mask + shape.max_document_tokens, 0) == shape.max_document_tokens;
    const float expected = empty ? library_case.call.empty_score : queries[library_case.QueryOf(pair)].score;
    for (const float score : {scores[pair], host_scores[pair]}) {
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(score) : score == expected) << score << ", and not " << expected;
    }
  }
}

TEST_F(GpuLibraryTest, MatricesOfMoreThan2To31ElementsAreScored) {
  constexpr int64_t kDim = 128;
  constexpr int64_t kTokens = 128;
  constexpr int64_t kDocuments = (int64_t{1} << 31) / kDim / kTokens + 10;
  LibraryShape shape;
  shape.type = MAXSIM_F16;
  shape.dim = kDim;
  shape.num_queries = 1;
  shape.num_documents = 1;
  shape.max_query_tokens = 4;
  shape.max_document_tokens = kTokens;
  const LibraryCase small(shape, TestSeed());
  DeviceCase one(small);
  one.Forward(stream_.get());
  one.Backward(stream_.get());

  const size_t document_bytes = small.documents.rows.size();
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const size_t needed = 2 * kDocuments * document_bytes + (size_t{1} << 30);
  if (free < needed) GTEST_SKIP() << "needs GPU memory: " << needed << " bytes, and " << free << " are free";
  // All documents but the last one are zeros, and only the last one has a gradient.
  cuda::DeviceBuffer rows = PoisonedBuffer(kDocuments * document_bytes);
  ASSERT_EQ(cudaMemset(rows.as(), 0, rows.bytes()), cudaSuccess);
  char* const last = rows.as<char>() + (kDocuments - 1) * document_bytes;
  ASSERT_EQ(cudaMemcpy(last, small.documents.rows.data(), document_bytes, cudaMemcpyHostToDevice), cudaSuccess);
  maxsim_tokens documents = small.documents.tokens;
  documents.num_sequences = kDocuments;
  documents.num_rows = kDocuments * kTokens;
  documents.rows = rows.as();
  maxsim_call call = one.call();
  call.documents = &documents;
  size_t bytes = 0;
  ASSERT_EQ(maxsim_workspace_bytes(&call, MAXSIM_BACKWARD, &bytes), MAXSIM_OK) << maxsim_last_error();
  const cuda::DeviceBuffer workspace = PoisonedBuffer(bytes);
  call.workspace = workspace.as();
  call.workspace_bytes = bytes;
  const cuda::DeviceBuffer scores = PoisonedBuffer(kDocuments * sizeof(float));
  const cuda::DeviceBuffer argmax = PoisonedBuffer(kDocuments * shape.max_query_tokens * sizeof(int32_t));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(maxsim_forward(&call, scores.as<float>(), argmax.as<int32_t>()), MAXSIM_OK) << maxsim_last_error();
  EXPECT_EQ(Download<float>(scores).back(), one.scores()[0]);

  const cuda::DeviceBuffer score_gradients = PoisonedBuffer(kDocuments * sizeof(float));
  ASSERT_EQ(cudaMemset(score_gradients.as(), 0, score_gradients.bytes()), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(score_gradients.as<float>() + kDocuments - 1, small.score_gradients.data(), sizeof(float),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  const cuda::DeviceBuffer gradient_rows = PoisonedBuffer(rows.bytes());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                      .argmax = argmax.as<int32_t>(),
                                      .score_gradients = score_gradients.as<float>(),
                                      .query_gradients = nullptr,
                                      .document_gradients = gradient_rows.as(),
                                      .weight_gradients = nullptr};
  ASSERT_EQ(maxsim_backward(&call, &gradients), MAXSIM_OK) << maxsim_last_error();
  ASSERT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
  std::vector<char> written(document_bytes);
  ASSERT_EQ(cudaMemcpy(written.data(), gradient_rows.as<char>() + (kDocuments - 1) * document_bytes, document_bytes,
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(written, one.gradients().documents);
}

TEST_F(GpuLibraryTest, ATooSmallWorkspaceIsRefused) {
  LibraryShape shape;
  shape.max_query_tokens = 40;  // two query tiles, whose sums are kept in the workspace
  const LibraryCase library_case(shape, TestSeed());
  DeviceCase device(library_case);
  maxsim_call call = device.call();
  size_t needed = 0;
  ASSERT_EQ(maxsim_workspace_bytes(&call, MAXSIM_FORWARD, &needed), MAXSIM_OK) << maxsim_last_error();
  ASSERT_GT(needed, 8u);
  call.workspace_bytes = 8;
  float score = 0;
  EXPECT_EQ(maxsim_forward(&call, &score, nullptr), MAXSIM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(maxsim_last_error()).find("call.workspace_bytes is 8"), std::string::npos);
  call = device.call();
  call.workspace = static_cast<char*>(call.workspace) + 16;
  EXPECT_EQ(maxsim_forward(&call, &score, nullptr), MAXSIM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(maxsim_last_error()).find("aligned"), std::string::npos);
}

}  // namespace
}  // namespace maxsim::test
