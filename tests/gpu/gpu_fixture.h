// Helpers of the GPU tests: one backend per binary, and the reason why a test is skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_executor.h"
#include "kernels/plan/score_tile.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// Sets of kernels for ExecutorTuning::tiles. kAnyTile allows all kernels. kTilesOfLongCalls excludes the stream kernel,
// which a Hopper GPU uses for short calls. So a short call in a test runs the kernels of long calls.
inline constexpr uint32_t kAnyTile = ~uint32_t{0};
inline constexpr uint32_t kTilesOfLongCalls = ~(1u << static_cast<uint32_t>(ScoreTile::kStream32));

// Restricts all executors of a backend to the kernels `tiles` while the object lives.
class TilesAllowed {
 public:
  TilesAllowed(cuda::CudaBackend& backend, uint32_t tiles)
      : tiles_(backend.device()->limits.tiles), before_(std::exchange(tiles_, tiles)) {}
  ~TilesAllowed() { tiles_ = before_; }
  TilesAllowed(const TilesAllowed&) = delete;
  TilesAllowed& operator=(const TilesAllowed&) = delete;

 private:
  uint32_t& tiles_;
  const uint32_t before_;
};

// Returns the backend of device 0, or the status that says why there is none. Creates it once per process.
const absl::StatusOr<std::unique_ptr<cuda::CudaBackend>>& GpuBackend();

// Skips the test, with the reason, on a machine without a usable GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!GpuBackend().ok()) GTEST_SKIP() << "needs a GPU: " << GpuBackend().status().message();
  }

  cuda::CudaBackend& backend() { return **GpuBackend(); }

  // These functions load documents or create an executor. If that fails, they fail the test.
  std::unique_ptr<Documents> Load(const RandomDocuments& documents);
  std::unique_ptr<cuda::CudaExecutor> MakeExecutor(const ExecutorOptions& options = {});

  // Runs TopK into vectors that start out as garbage.
  static std::vector<std::vector<Scored>> TopK(Executor& executor, const Documents& documents,
                                               const std::vector<Query>& queries);
};

}  // namespace maxsim::test
