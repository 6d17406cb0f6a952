// Compares the operators for residual codes on a GPU with FP64. The calls are the same as in the CPU's tests.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/library/include/maxsim/residual_codes.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/library/codes_case.h"

namespace maxsim::test {
namespace {

// Returns device memory with all bytes 0xff, which are NaN as floats and out of range as indices.
cuda::DeviceBuffer PoisonedCodesBuffer(size_t bytes) {
  absl::StatusOr<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::Allocate(bytes, "a test");
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  if (!buffer.ok()) return {};
  EXPECT_EQ(cudaMemset(buffer->as(), 0xff, bytes), cudaSuccess);
  return *std::move(buffer);
}

// A case with its inputs in device memory, and the memory that the forward and the backward pass write.
class DeviceCodes {
 public:
  explicit DeviceCodes(const CodesCase& codes_case)
      : case_(codes_case),
        queries_(UploadTokens(codes_case.library.queries)),
        documents_(UploadTokens(codes_case.library.documents)),
        call_(codes_case.library.call),
        codes_(codes_case.codes) {
    documents_.rows = nullptr;
    call_.device = MAXSIM_CUDA;
    call_.queries = &queries_;
    call_.documents = &documents_;
    call_.weights = Upload(codes_case.library.weights);
    call_.candidates = Upload(codes_case.library.candidates);
    codes_.centroid_numbers = Upload(codes_case.numbers);
    codes_.residuals = Upload(codes_case.residuals);
    codes_.centroids = Upload(codes_case.centroids);
    codes_.bucket_weights = Upload(codes_case.bucket_weights);
    score_gradients_ = Upload(codes_case.library.score_gradients);
    const auto num_pairs = static_cast<size_t>(codes_case.library.num_pairs());
    scores_ = PoisonedCodesBuffer(num_pairs * sizeof(float));
    argmax_ = PoisonedCodesBuffer(num_pairs * queries_.max_tokens * sizeof(int32_t));
    query_gradients_ = PoisonedCodesBuffer(codes_case.library.queries.rows.size());
    weight_gradients_ = PoisonedCodesBuffer(queries_.num_rows * sizeof(float));
    size_t bytes = 0;
    EXPECT_EQ(maxsim_residual_codes_workspace_bytes(&call_, &codes_, &bytes), MAXSIM_OK) << maxsim_last_error();
    workspace_ = PoisonedCodesBuffer(bytes);
    call_.workspace = workspace_.as();
    call_.workspace_bytes = bytes;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  DeviceCodes(const DeviceCodes&) = delete;
  DeviceCodes& operator=(const DeviceCodes&) = delete;

  void Forward(cudaStream_t stream, bool with_argmax = true) {
    call_.stream = stream;
    EXPECT_EQ(maxsim_residual_codes_forward(&call_, &codes_, scores_.as<float>(),
                                            with_argmax ? argmax_.as<int32_t>() : nullptr),
              MAXSIM_OK)
        << maxsim_last_error();
  }
  void Backward(cudaStream_t stream) {
    call_.stream = stream;
    const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                        .argmax = argmax_.as<int32_t>(),
                                        .score_gradients = score_gradients_,
                                        .query_gradients = query_gradients_.as(),
                                        .document_gradients = nullptr,
                                        .weight_gradients = weight_gradients_.as<float>()};
    EXPECT_EQ(maxsim_residual_codes_backward(&call_, &codes_, &gradients), MAXSIM_OK) << maxsim_last_error();
  }

  void Poison() {
    for (const cuda::DeviceBuffer* buffer : {&scores_, &argmax_, &query_gradients_, &weight_gradients_, &workspace_}) {
      EXPECT_EQ(cudaMemset(buffer->as(), 0xff, buffer->bytes()), cudaSuccess);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  // These functions wait for the device.
  std::vector<float> scores() const { return Downloaded<float>(scores_); }
  std::vector<int32_t> argmax() const { return Downloaded<int32_t>(argmax_); }
  LibraryGradientMemory gradients() const {
    LibraryGradientMemory memory(case_.library);
    memory.queries = Downloaded<char>(query_gradients_);
    memory.weights = Downloaded<float>(weight_gradients_);
    return memory;
  }

 private:
  template <typename T>
  static std::vector<T> Downloaded(const cuda::DeviceBuffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), buffer.as(), buffer.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

  template <typename T>
  const T* Upload(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    buffers_.push_back(PoisonedCodesBuffer(values.size() * sizeof(T)));
    EXPECT_EQ(cudaMemcpy(buffers_.back().as(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    return buffers_.back().as<T>();
  }

  maxsim_tokens UploadTokens(const LibraryTokens& tokens) {
    maxsim_tokens uploaded = tokens.tokens;
    if (uploaded.rows != nullptr) uploaded.rows = Upload(tokens.rows);
    uploaded.offsets = Upload(tokens.offsets);
    uploaded.lengths = Upload(tokens.lengths);
    uploaded.mask = Upload(tokens.mask);
    return uploaded;
  }

  const CodesCase& case_;
  std::vector<cuda::DeviceBuffer> buffers_;
  maxsim_tokens queries_;
  maxsim_tokens documents_;
  maxsim_call call_;
  maxsim_residual_codes codes_;
  const float* score_gradients_ = nullptr;
  cuda::DeviceBuffer scores_;
  cuda::DeviceBuffer argmax_;
  cuda::DeviceBuffer query_gradients_;
  cuda::DeviceBuffer weight_gradients_;
  cuda::DeviceBuffer workspace_;
};

class GpuResidualCodesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<cuda::Stream> stream = cuda::Stream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  // Runs a shape on the device and compares scores, matches and gradients with FP64.
  void ExpectShape(const CodesShape& shape, uint64_t seed) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const CodesCase codes_case(shape, seed);
    DeviceCodes device(codes_case);
    device.Forward(stream_.get());
    const std::vector<float> scores = device.scores();
    const std::vector<int32_t> argmax = device.argmax();
    ExpectScores(codes_case.library, ReferenceScoresOf(codes_case.library), scores, argmax);
    device.Backward(stream_.get());
    ExpectQueryGradients(codes_case, argmax, device.gradients());
    device.Poison();
    device.Forward(stream_.get(), /*with_argmax=*/false);
    EXPECT_EQ(device.scores(), scores) << "scores differ where the argmax is not asked for";
  }

  cuda::Stream stream_;
};

// Returns a shape that needs many thread blocks and has documents of all lengths.
CodesShape LargeShape(int32_t type) {
  return {.library = {.type = type,
                      .dim = 128,
                      .num_queries = 2,
                      .num_documents = 1500,
                      .max_query_tokens = 40,
                      .max_document_tokens = 130,
                      .document_layout = MAXSIM_PACKED,
                      .index_type = MAXSIM_INT32},
          .number_type = MAXSIM_INT32,
          .normalize = true,
          .num_centroids = 3000};
}

TEST_F(GpuResidualCodesTest, ScoresMatchesAndGradientsAreThoseOfDecodedVectorsInFp64) {
  for (const CodesShape& shape : CodesShapes()) ExpectShape(shape, TestSeed());
}

TEST_F(GpuResidualCodesTest, EveryDimensionAndTileEdgeIsScored) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    for (const CodesShape& shape : CodesEdgeShapes(type)) ExpectShape(shape, TestSeed() + shape.library.dim);
  }
}

TEST_F(GpuResidualCodesTest, AThreadBlockHasManyDocumentsOfAllLengths) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) ExpectShape(LargeShape(type), TestSeed());
}

TEST_F(GpuResidualCodesTest, TwentyRunsAndACapturedOneHaveTheSameBits) {
  const CodesCase codes_case(LargeShape(MAXSIM_BF16), TestSeed());
  DeviceCodes device(codes_case);
  device.Forward(stream_.get());
  device.Backward(stream_.get());
  const std::vector<float> scores = device.scores();
  const std::vector<int32_t> argmax = device.argmax();
  const LibraryGradientMemory gradients = device.gradients();
  const auto expect_same = [&] {
    EXPECT_EQ(device.scores(), scores);
    EXPECT_EQ(device.argmax(), argmax);
    EXPECT_EQ(device.gradients(), gradients);
  };
  for (int run = 0; run < 20; ++run) {
    device.Poison();
    device.Forward(stream_.get());
    device.Backward(stream_.get());
    expect_same();
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
  device.Forward(stream_.get());
  device.Backward(stream_.get());
  ASSERT_EQ(cudaStreamEndCapture(stream_.get(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  device.Poison();
  EXPECT_EQ(cudaGraphLaunch(executable, stream_.get()), cudaSuccess);
  expect_same();
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace maxsim::test
