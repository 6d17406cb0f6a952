// What the GPU tests share: one backend a binary, and the line that says why a test was skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_executor.h"
#include "tests/support/random_documents.h"

namespace maxsim::test {

// The backend of device 0, or its status where there is none. Made once and kept for the life of the process.
const absl::StatusOr<std::unique_ptr<cuda::CudaBackend>>& GpuBackend();

// Skips the test, with the reason, on a machine without a usable GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!GpuBackend().ok()) GTEST_SKIP() << GpuBackend().status().message();
  }

  cuda::CudaBackend& backend() { return **GpuBackend(); }

  // Loads or makes, and fails the test where that does not work.
  std::unique_ptr<Documents> Load(const RandomDocuments& documents);
  std::unique_ptr<cuda::CudaExecutor> MakeExecutor(const ExecutorOptions& options = {});

  // TopK into vectors that start out as garbage.
  static std::vector<std::vector<Scored>> TopK(Executor& executor, const Documents& documents,
                                               const std::vector<Query>& queries);
};

}  // namespace maxsim::test
