// Compares three-way attention and three-way MaxSim on a GPU with FP64. The shapes are the same as in the CPU's test.
#include <gtest/gtest.h>

#include "kernels/library/include/maxsim/triadic.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/library/gpu_library_device.h"
#include "tests/support/library/triadic_case.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {
namespace {

using GpuTriadicTest = GpuTest;

TEST_F(GpuTriadicTest, OutputAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const TriadicShape& shape : TriadicShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    GpuLibraryDevice device;
    TriadicCase(device, shape, TestSeed()).Expect(TriadicTolerance(shape.type, true));
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuTriadicTest, WeightsOfValueGradientsSumToOne) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const TriadicShape& shape : TriadicShapesOfLargeLogits()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    GpuLibraryDevice device;
    TriadicCase(device, shape, TestSeed()).ExpectWeightsToSumToOne();
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuTriadicTest, TwentyRunsOfAttentionHaveTheSameBits) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    GpuLibraryDevice device;
    TriadicShape shape = {.type = type, .dim = 64, .num_problems = 3, .num_queries = 130, .max_first = 200};
    shape.max_second = 150;
    shape.lengths = true;
    TriadicCase triadic(device, shape, TestSeed());
    TriadicResults expected;
    for (int run = 0; run < 20; ++run) {
      triadic.Forward();
      triadic.Backward();
      if (run == 0) expected = triadic.Results();
      ASSERT_EQ(triadic.Results(), expected) << "type " << type << ", run " << run;
    }
  }
}

TEST_F(GpuTriadicTest, ACapturedCallGivesTheSameBits) {
  GpuLibraryDevice device;
  TriadicShape shape = {.type = MAXSIM_BF16, .dim = 40, .num_problems = 2, .num_queries = 20, .max_first = 200};
  shape.max_second = 150;
  TriadicCase triadic(device, shape, TestSeed());
  TriadicMaxShape max_shape = {.num_problems = 2, .max_queries = 20, .max_first = 300, .max_second = 150};
  TriadicMaxCase triadic_max(device, max_shape, TestSeed());
  const auto run = [&] {
    triadic.Forward();
    triadic.Backward();
    triadic_max.Forward();
    triadic_max.Backward();
  };
  run();
  const TriadicResults expected = triadic.Results();
  const TriadicMaxResults max_expected = triadic_max.Results();
  RunCaptured(device, run);
  EXPECT_EQ(triadic.Results(), expected);
  EXPECT_EQ(triadic_max.Results(), max_expected);
}

TEST_F(GpuTriadicTest, MaximaAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const TriadicMaxShape& shape : TriadicMaxShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    GpuLibraryDevice device;
    TriadicMaxCase(device, shape, TestSeed()).Expect();
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuTriadicTest, TwentyRunsOfMaxSimHaveTheSameBits) {
  GpuLibraryDevice device;
  TriadicMaxShape shape = {.type = MAXSIM_F16, .num_problems = 3, .max_queries = 40, .max_first = 300};
  shape.max_second = 170;
  shape.lengths = true;
  TriadicMaxCase triadic(device, shape, TestSeed());
  TriadicMaxResults expected;
  for (int run = 0; run < 20; ++run) {
    triadic.Forward();
    triadic.Backward();
    if (run == 0) expected = triadic.Results();
    ASSERT_EQ(triadic.Results(), expected) << "run " << run;
  }
}

}  // namespace
}  // namespace maxsim::test
