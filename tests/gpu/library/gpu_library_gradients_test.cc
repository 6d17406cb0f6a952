// Tests the C library's gradients on a GPU. Some gradients are sums of many parts, some are of lists, and repeated runs
// must give the same bits.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/maxsim.h"
#include "tests/gpu/library/gpu_library_fixture.h"
#include "tests/support/library/library_case.h"

namespace maxsim::test {
namespace {

// The shapes are so large that gradients are summed in several parts and several warps share query tokens. Some
// matrices have rows that belong to no document.
TEST_F(GpuLibraryTest, GradientsOfManyPartsAreSummedUp) {
  const auto shape_of = [](int64_t num_queries, int64_t query_tokens, int64_t num_documents, int64_t document_tokens) {
    LibraryShape shape;
    shape.num_queries = num_queries;
    shape.max_query_tokens = query_tokens;
    shape.num_documents = num_documents;
    shape.max_document_tokens = document_tokens;
    shape.lengths = true;
    shape.weights = true;
    return shape;
  };
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    for (const int32_t layout : {MAXSIM_PADDED, MAXSIM_PACKED}) {
      for (const auto& [shape, dim] :
           {std::pair(shape_of(1, 3, 700, 5), 16), std::pair(shape_of(2, 7, 100, 30), 130),
            std::pair(shape_of(40, 30, 2, 900), 130), std::pair(shape_of(3, 600, 3, 450), 64),
            std::pair(shape_of(1100, 1, 2, 400), 8), std::pair(shape_of(9, 57, 5, 1), 260)}) {
        LibraryShape typed = shape;
        typed.type = type;
        typed.dim = dim;
        typed.query_layout = layout;
        typed.document_layout = layout;
        typed.document_mask = dim == 130;
        ExpectShape(typed, TestSeed() + dim);
      }
    }
  }
}

// If all queries score a document, its matches are read from the argmax. If lists name it, its matches are found by a
// sort. If each list names all documents, both ways must give the same gradients.
TEST_F(GpuLibraryTest, ListsOfAllDocumentsGiveTheSameGradients) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_BF16}) {
    LibraryShape shape;
    shape.type = type;
    shape.dim = 128;
    shape.pairing = MAXSIM_LISTS;
    shape.num_queries = 30;
    shape.num_documents = 11;
    shape.list_length = 11;
    shape.candidates = true;
    shape.max_query_tokens = 40;
    shape.max_document_tokens = 500;
    shape.lengths = true;
    shape.weights = true;
    LibraryCase library_case(shape, TestSeed());
    for (size_t pair = 0; pair < library_case.candidates.size(); ++pair) {
      library_case.candidates[pair] = static_cast<int64_t>(pair) % shape.num_documents;
    }
    DeviceCase device(library_case);
    device.Forward(stream_.get());
    device.Backward(stream_.get());
    const LibraryGradientMemory gradients = device.gradients();
    device.Poison();
    device.call().pairing = MAXSIM_ALL;
    device.call().candidates = nullptr;
    device.call().list_length = 0;
    size_t bytes = 1;
    EXPECT_EQ(maxsim_workspace_bytes(&device.call(), MAXSIM_BACKWARD, &bytes), MAXSIM_OK) << maxsim_last_error();
    EXPECT_EQ(bytes, 0u);
    device.AllocateWorkspace();
    device.Forward(stream_.get());
    device.Backward(stream_.get());
    EXPECT_EQ(device.gradients(), gradients);
  }
}

TEST_F(GpuLibraryTest, TwentyRunsHaveTheSameBits) {
  LibraryShape shape;
  shape.type = MAXSIM_BF16;
  shape.dim = 128;
  shape.num_queries = 16;
  shape.num_documents = 64;
  shape.max_query_tokens = 33;
  shape.max_document_tokens = 150;
  shape.lengths = true;
  shape.weights = true;
  const LibraryCase library_case(shape, TestSeed());
  DeviceCase device(library_case);
  std::vector<float> scores;
  std::vector<int32_t> argmax;
  std::unique_ptr<LibraryGradientMemory> gradients;
  for (int run = 0; run < 20; ++run) {
    device.Poison();
    device.Forward(stream_.get());
    device.Backward(stream_.get());
    if (run == 0) {
      scores = device.scores();
      argmax = device.argmax();
      gradients = std::make_unique<LibraryGradientMemory>(device.gradients());
      continue;
    }
    EXPECT_EQ(std::memcmp(device.scores().data(), scores.data(), scores.size() * sizeof(float)), 0);
    EXPECT_EQ(device.argmax(), argmax);
    EXPECT_EQ(device.gradients(), *gradients);
  }
}

TEST_F(GpuLibraryTest, ACapturedStepGivesTheSameBits) {
  LibraryShape shape;
  shape.type = MAXSIM_F16;
  shape.dim = 64;
  shape.num_queries = 5;
  shape.num_documents = 9;
  shape.max_query_tokens = 70;
  shape.max_document_tokens = 90;
  shape.query_layout = MAXSIM_PACKED;
  shape.document_layout = MAXSIM_PACKED;
  shape.weights = true;
  const LibraryCase library_case(shape, TestSeed());
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  device.Backward(stream_.get());
  const std::vector<float> scores = device.scores();
  const std::vector<int32_t> argmax = device.argmax();
  const LibraryGradientMemory gradients = device.gradients();

  ASSERT_EQ(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
  device.Forward(stream_.get());
  device.Backward(stream_.get());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_.get(), &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int run = 0; run < 3; ++run) {
    device.Poison();
    ASSERT_EQ(cudaGraphLaunch(executable, stream_.get()), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    EXPECT_EQ(device.scores(), scores);
    EXPECT_EQ(device.argmax(), argmax);
    EXPECT_EQ(device.gradients(), gradients);
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(GpuLibraryTest, APairWhoseGradientIsZeroAddsNothing) {
  LibraryShape shape;
  shape.dim = 1;
  shape.weights = true;
  LibraryCase library_case(shape, TestSeed());
  auto* const values = reinterpret_cast<float*>(library_case.documents.rows.data());
  std::fill(values, values + shape.max_document_tokens, std::numeric_limits<float>::infinity());
  for (int64_t pair = 0; pair < library_case.num_pairs(); ++pair) {
    library_case.score_gradients[pair] = library_case.DocumentOf(pair) == 0 ? 0.0f : 1.0f;
  }
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  device.Backward(stream_.get());
  const LibraryGradientMemory gradients = device.gradients();
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto* const query_values = reinterpret_cast<const float*>(gradients.queries.data());
  EXPECT_TRUE(std::all_of(query_values, query_values + gradients.queries.size() / sizeof(float), finite));
  EXPECT_TRUE(std::all_of(gradients.weights.begin(), gradients.weights.end(), finite));
  const auto* const document_values = reinterpret_cast<const float*>(gradients.documents.data());
  EXPECT_EQ(std::count(document_values, document_values + shape.max_document_tokens, 0.0f), shape.max_document_tokens);
}

TEST_F(GpuLibraryTest, ALongPackedDocumentHasGradientsThoughMostAreShort) {
  LibraryShape shape;
  shape.type = MAXSIM_F16;
  shape.dim = 128;
  shape.num_queries = 6;
  shape.num_documents = 40;
  shape.max_query_tokens = 33;
  shape.max_document_tokens = 120;
  shape.document_layout = MAXSIM_PACKED;
  LibraryCase library_case(shape, TestSeed());
  // Document 1 gets the rows of documents 2 to 29, and those become empty.
  auto* const offsets = reinterpret_cast<int64_t*>(library_case.documents.offsets.data());
  std::fill(offsets + 2, offsets + 30, offsets[30]);
  library_case.documents.tokens.max_tokens =
      65536;  // the largest number, for callers who do not know the longest document
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  const std::vector<int32_t> argmax = device.argmax();
  ExpectScores(library_case, ReferenceScoresOf(library_case), device.scores(), argmax);
  device.Backward(stream_.get());
  ExpectGradients(library_case, argmax, device.gradients());
}

TEST_F(GpuLibraryTest, GradientsOfQueriesAloneNeedNoWorkspace) {
  LibraryShape shape;
  shape.pairing = MAXSIM_LISTS;  // gradients of documents are sorted in the workspace
  shape.list_length = 3;
  const LibraryCase library_case(shape, TestSeed());
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  device.Backward(stream_.get());
  const LibraryGradientMemory gradients = device.gradients();
  device.Poison();
  device.Forward(stream_.get());
  device.call().workspace = nullptr;
  device.call().workspace_bytes = 0;
  device.Backward(stream_.get(), /*with_documents=*/false);
  EXPECT_EQ(device.gradients().queries, gradients.queries);
  EXPECT_EQ(device.gradients().weights, gradients.weights);
}

}  // namespace
}  // namespace maxsim::test
