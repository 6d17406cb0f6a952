// Compares nearest points (nearest.h) on a GPU with FP64. The shapes are the same as in the CPU's test.
#include <gtest/gtest.h>

#include "kernels/library/include/maxsim/nearest.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/library/gpu_library_device.h"
#include "tests/support/library/nearest_case.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {
namespace {

using GpuNearestTest = GpuTest;

TEST_F(GpuNearestTest, DistancesAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const NearestShape& shape : NearestShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    GpuLibraryDevice device;
    NearestCase(device, shape, TestSeed()).Expect();
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuNearestTest, EveryEdgeOfATileAndOfAPartIsCompared) {
  // With 3 columns, the kernel has tiles of 1,024 x and 512 y, groups of 8 y and parts of 128 y. With 8 columns, it has
  // tiles of 128 x and 64 y.
  for (const int32_t dim : {3, 8}) {
    for (const int64_t num_y : {1, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 2500}) {
      for (const int64_t num_x : {1, 1023, 1025}) {
        const NearestShape shape = {.dim = dim, .num_sets = 2, .max_x = num_x, .max_y = num_y, .ties = true};
        SCOPED_TRACE(testing::PrintToString(shape));
        GpuLibraryDevice device;
        NearestCase(device, shape, TestSeed()).Expect();
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuNearestTest, TwentyRunsHaveTheSameBits) {
  for (const int32_t dim : {3, 40}) {
    GpuLibraryDevice device;
    const NearestShape shape = {.dim = dim, .num_sets = 2, .max_x = 3000, .max_y = 1000, .lengths = true};
    NearestCase nearest(device, shape, TestSeed());
    NearestResults expected;
    for (int run = 0; run < 20; ++run) {
      nearest.Forward();
      nearest.Backward();
      if (run == 0) expected = nearest.Results();
      ASSERT_EQ(nearest.Results(), expected) << "run " << run;
    }
  }
}

TEST_F(GpuNearestTest, ACapturedCallGivesTheSameBits) {
  GpuLibraryDevice device;
  const NearestShape shape = {.num_sets = 2, .max_x = 3000, .max_y = 1000, .lengths = true};
  NearestCase nearest(device, shape, TestSeed());
  nearest.Forward();
  nearest.Backward();
  const NearestResults expected = nearest.Results();
  RunCaptured(device, [&] {
    nearest.Forward();
    nearest.Backward();
  });
  EXPECT_EQ(nearest.Results(), expected);
}

}  // namespace
}  // namespace maxsim::test
