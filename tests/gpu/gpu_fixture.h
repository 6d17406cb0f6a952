// Helpers of the GPU tests: one backend per binary, and the reason for skipping a test.
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

// Sets of tilings for ExecutorTuning::tiles. kAnyTile allows all of them. kTilesOfLongCalls excludes the stream kernel,
// which a Hopper GPU uses for short calls. Tests cannot afford long calls, so with this set their short calls use the
// kernels of long ones.
inline constexpr uint32_t kAnyTile = ~uint32_t{0};
inline constexpr uint32_t kTilesOfLongCalls = ~(1u << static_cast<uint32_t>(ScoreTile::kStream32));

// Until the object goes out of scope, allows only `tiles` to all executors of a backend.
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

// Returns the backend of device 0, or the status that says why there is none. The backend is created once per process.
const absl::StatusOr<std::unique_ptr<cuda::CudaBackend>>& GpuBackend();

// Skips the test, with the reason, on a machine without a usable GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!GpuBackend().ok()) GTEST_SKIP() << "needs a GPU: " << GpuBackend().status().message();
  }

  cuda::CudaBackend& backend() { return **GpuBackend(); }

  // These functions load documents and create an executor. If that fails, the test fails.
  std::unique_ptr<Documents> Load(const RandomDocuments& documents);
  std::unique_ptr<cuda::CudaExecutor> MakeExecutor(const ExecutorOptions& options = {});

  // Runs TopK into vectors that start out as garbage.
  static std::vector<std::vector<Scored>> TopK(Executor& executor, const Documents& documents,
                                               const std::vector<Query>& queries);
};

}  // namespace maxsim::test
