// Device memory and a CUDA stream for the tests of the C library's operators.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/support/library/library_device.h"

namespace maxsim::test {

// The current CUDA device, with a stream that does not synchronise with the default stream.
class GpuLibraryDevice : public LibraryDevice {
 public:
  GpuLibraryDevice() {
    absl::StatusOr<cuda::Stream> stream = cuda::Stream::Create();
    EXPECT_TRUE(stream.ok()) << stream.status();
    if (stream.ok()) stream_ = *std::move(stream);
  }

  int32_t device() const override { return MAXSIM_CUDA; }
  void* stream() const override { return stream_.get(); }
  void* Allocate(size_t bytes) override {
    absl::StatusOr<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::Allocate(std::max<size_t>(bytes, 1), "a test");
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    if (!buffer.ok()) return nullptr;
    buffers_.push_back(*std::move(buffer));
    EXPECT_EQ(cudaMemset(buffers_.back().as(), 0xff, buffers_.back().bytes()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return buffers_.back().as();
  }
  void Write(void* target, const void* source, size_t bytes) override {
    EXPECT_EQ(cudaMemcpy(target, source, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void Read(void* target, const void* source, size_t bytes) override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(target, source, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  }

 private:
  cuda::Stream stream_;
  std::vector<cuda::DeviceBuffer> buffers_;
};

// Captures the kernels that `work` launches on the device's stream as a CUDA graph, and runs the graph twice.
template <typename Work>
void RunCaptured(GpuLibraryDevice& device, Work work) {
  const auto stream = static_cast<cudaStream_t>(device.stream());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  work();
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int run = 0; run < 2; ++run) EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace maxsim::test
