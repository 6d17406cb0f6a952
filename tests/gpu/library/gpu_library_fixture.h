// Runs cases of the C library on a GPU: uploads the inputs, and allocates all memory that the library writes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/maxsim.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/library/library_case.h"

namespace maxsim::test {

// Returns device memory with all bytes 0xff, which are NaN as floats and out of range as indices.
inline cuda::DeviceBuffer PoisonedBuffer(size_t bytes) {
  absl::StatusOr<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::Allocate(bytes, "a test");
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  if (!buffer.ok()) return {};
  EXPECT_EQ(cudaMemset(buffer->as(), 0xff, bytes), cudaSuccess);
  return *std::move(buffer);
}

// Waits for the whole device, because the test's stream does not synchronise with the default stream.
template <typename T>
std::vector<T> Download(const cuda::DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(values.data(), buffer.as(), buffer.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

// A case with its inputs in device memory, and the memory that the forward and the backward pass write.
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
    AllocateWorkspace();
  }
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  maxsim_call& call() { return call_; }

  // Allocates as much workspace as both passes of call() need. Call it again after a change of call().
  void AllocateWorkspace() {
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

  // Starts the forward pass on the stream.
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

  // Sets all memory that the passes write, including the workspace, to 0xff again.
  void Poison() {
    for (const cuda::DeviceBuffer* buffer :
         {&scores_, &argmax_, &query_gradients_, &document_gradients_, &weight_gradients_, &workspace_}) {
      EXPECT_EQ(cudaMemset(buffer->as(), 0xff, buffer->bytes()), cudaSuccess);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  // These functions wait for the device.
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

  // Runs a shape on the device. Compares scores, matches and (except for INT8) gradients with FP64.
  void ExpectShape(const LibraryShape& shape, uint64_t seed) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const LibraryCase library_case(shape, seed);
    DeviceCase device(library_case);
    device.Forward(stream_.get());
    const std::vector<float> scores = device.scores();
    const std::vector<int32_t> argmax = device.argmax();
    ExpectScores(library_case, ReferenceScoresOf(library_case), scores, argmax);
    if (shape.type != MAXSIM_I8 && !shape.scaled_tokens) {
      device.Backward(stream_.get());
      ExpectGradients(library_case, argmax, device.gradients());
    }
    device.Poison();
    device.Forward(stream_.get(), /*with_argmax=*/false);
    EXPECT_EQ(device.scores(), scores) << "scores differ where the argmax is not asked for";
  }

  cuda::Stream stream_;
};

}  // namespace maxsim::test
