// The C library on a GPU: the calls of the CPU's tests over device memory, beside FP64 and beside the CPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/maxsim.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/library/library_case.h"

namespace maxsim::test {
namespace {

// Memory of the device whose bytes begin as 0xff: NaN, or indices that point nowhere.
cuda::DeviceBuffer PoisonedBuffer(size_t bytes) {
  absl::StatusOr<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::Allocate(bytes, "a test");
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  if (!buffer.ok()) return {};
  EXPECT_EQ(cudaMemset(buffer->as(), 0xff, bytes), cudaSuccess);
  return *std::move(buffer);
}

// Waits for the device, since the test's CUDA stream does not synchronise with the default one.
template <typename T>
std::vector<T> Download(const cuda::DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(values.data(), buffer.as(), buffer.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

// A case in the device's memory, with room for everything that its passes write.
class DeviceCase {
 public:
  explicit DeviceCase(const LibraryCase& library_case)
      : case_(library_case),
        queries_(Upload(library_case.queries)),
        documents_(Upload(library_case.documents)),
        call_(library_case.call),
        score_gradients_(UploadVector(library_case.score_gradients)) {
    const auto num_pairs = static_cast<size_t>(library_case.num_pairs());
    call_.device = MAXSIM_CUDA;
    call_.queries = &queries_;
    call_.documents = &documents_;
    call_.weights = UploadVector(library_case.weights);
    call_.candidates = UploadVector(library_case.candidates);
    scores_ = PoisonedBuffer(num_pairs * sizeof(float));
    argmax_ = PoisonedBuffer(num_pairs * queries_.max_tokens * sizeof(int32_t));
    query_gradients_ = PoisonedBuffer(library_case.queries.rows.size());
    document_gradients_ = PoisonedBuffer(library_case.documents.rows.size());
    weight_gradients_ = PoisonedBuffer(queries_.num_rows * sizeof(float));
    size_t bytes = 0;
    for (const int32_t pass : {MAXSIM_FORWARD, MAXSIM_BACKWARD}) {
      size_t needed = 0;
      EXPECT_EQ(maxsim_workspace_bytes(&call_, pass, &needed), MAXSIM_OK) << maxsim_last_error();
      bytes = std::max(bytes, needed);
    }
    workspace_ = PoisonedBuffer(bytes);
    call_.workspace = workspace_.as();
    call_.workspace_bytes = bytes;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  maxsim_call& call() { return call_; }

  // Puts the pass on the stream.
  void Forward(cudaStream_t stream, bool with_argmax = true) {
    call_.stream = stream;
    EXPECT_EQ(maxsim_forward(&call_, scores_.as<float>(), with_argmax ? argmax_.as<int32_t>() : nullptr), MAXSIM_OK)
        << maxsim_last_error();
  }
  void Backward(cudaStream_t stream, bool with_documents = true) {
    call_.stream = stream;
    const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                        .argmax = argmax_.as<int32_t>(),
                                        .score_gradients = score_gradients_,
                                        .query_gradients = query_gradients_.as(),
                                        .document_gradients = with_documents ? document_gradients_.as() : nullptr,
                                        .weight_gradients = weight_gradients_.as<float>()};
    EXPECT_EQ(maxsim_backward(&call_, &gradients), MAXSIM_OK) << maxsim_last_error();
  }

  // Makes everything that passes write 0xff again, the workspace included.
  void Poison() {
    for (const cuda::DeviceBuffer* buffer :
         {&scores_, &argmax_, &query_gradients_, &document_gradients_, &weight_gradients_, &workspace_}) {
      EXPECT_EQ(cudaMemset(buffer->as(), 0xff, buffer->bytes()), cudaSuccess);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  // These wait for the device.
  std::vector<float> scores() const { return Download<float>(scores_); }
  std::vector<int32_t> argmax() const { return Download<int32_t>(argmax_); }
  LibraryGradientMemory gradients() const {
    LibraryGradientMemory memory(case_);
    memory.queries = Download<char>(query_gradients_);
    memory.documents = Download<char>(document_gradients_);
    memory.weights = Download<float>(weight_gradients_);
    return memory;
  }

 private:
  template <typename T>
  const T* UploadVector(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    buffers_.push_back(PoisonedBuffer(values.size() * sizeof(T)));
    EXPECT_EQ(cudaMemcpy(buffers_.back().as(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    return buffers_.back().as<T>();
  }

  maxsim_tokens Upload(const LibraryTokens& tokens) {
    maxsim_tokens uploaded = tokens.tokens;
    uploaded.rows = UploadVector(tokens.rows);
    uploaded.offsets = UploadVector(tokens.offsets);
    uploaded.lengths = UploadVector(tokens.lengths);
    uploaded.mask = UploadVector(tokens.mask);
    uploaded.scales = UploadVector(tokens.scales);
    return uploaded;
  }

  const LibraryCase& case_;
  std::vector<cuda::DeviceBuffer> buffers_;
  maxsim_tokens queries_;
  maxsim_tokens documents_;
  maxsim_call call_;
  const float* score_gradients_;
  cuda::DeviceBuffer scores_;
  cuda::DeviceBuffer argmax_;
  cuda::DeviceBuffer query_gradients_;
  cuda::DeviceBuffer document_gradients_;
  cuda::DeviceBuffer weight_gradients_;
  cuda::DeviceBuffer workspace_;
};

class GpuLibraryTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<cuda::Stream> stream = cuda::Stream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  // Runs a shape on the device and compares it with FP64: scores and matches, and gradients where the type has them.
  void ExpectShape(const LibraryShape& shape, uint64_t seed) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const LibraryCase library_case(shape, seed);
    DeviceCase device(library_case);
    device.Forward(stream_.get());
    const std::vector<float> scores = device.scores();
    const std::vector<int32_t> argmax = device.argmax();
    ExpectScores(library_case, ReferenceScoresOf(library_case), scores, argmax);
    if (shape.type != MAXSIM_I8) {
      device.Backward(stream_.get());
      ExpectGradients(library_case, argmax, device.gradients());
    }
    device.Poison();
    device.Forward(stream_.get(), /*with_argmax=*/false);
    EXPECT_EQ(device.scores(), scores) << "scores differ where the argmax is not asked for";
  }

  cuda::Stream stream_;
};

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
    // Rows of multiples of 16 bytes and others, whole steps and parts of them, one chunk and many, several chains, and
    // queries that stay in shared memory and those that do not.
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
        shape.type = num_queries % 2 == 0 ? MAXSIM_F16 : MAXSIM_BF16;
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

// Documents of several tiles of sums, argmaxes of several rounds, query tokens that several warps share, and matrices
// with rows that belong to no document.
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

// Documents that every query meets find their matches in the argmax, and those of lists in a sort.
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
  shape.max_query_tokens = 70;  // three query tiles, whose sums wait in the workspace
  shape.document_mask = true;
  shape.weights = true;
  LibraryCase library_case(shape, TestSeed());
  for (LibraryTokens* tokens : {&library_case.queries, &library_case.documents}) {
    auto* const values = reinterpret_cast<float*>(tokens->rows.data());
    std::fill(values, values + tokens->rows.size() / sizeof(float), 1.0f);
  }
  // The weights of a query's first and last query tile, and what they make of every similarity of 16.
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
  shape.max_query_tokens = 40;  // two query tiles, whose sums wait in the workspace
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
