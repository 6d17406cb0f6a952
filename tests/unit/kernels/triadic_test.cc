// Tests three-way attention and three-way MaxSim on the CPU, through the functions that programs call.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/library/include/maxsim/triadic.h"
#include "tests/support/library/library_device.h"
#include "tests/support/library/triadic_case.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

TEST(TriadicTest, OutputAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const TriadicShape& shape : TriadicShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    HostLibraryDevice device;
    TriadicCase(device, shape, TestSeed()).Expect(TriadicTolerance(shape.type, false));
    if (HasFatalFailure()) return;
  }
}

TEST(TriadicTest, WeightsOfValueGradientsSumToOne) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const TriadicShape& shape : TriadicShapesOfLargeLogits()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    HostLibraryDevice device;
    TriadicCase(device, shape, TestSeed()).ExpectWeightsToSumToOne();
    if (HasFatalFailure()) return;
  }
}

TEST(TriadicTest, ResultsHaveTheSameBitsInEveryRunAndWithAnyNumberOfThreads) {
  TriadicShape shape = {.type = MAXSIM_BF16, .dim = 20, .num_problems = 3, .num_queries = 9, .max_first = 70};
  shape.max_second = 40;
  shape.lengths = true;
  TriadicResults expected;
  for (int run = 0; run < (kSanitized ? 8 : 20); ++run) {
    shape.num_threads = run % 4;
    HostLibraryDevice device;
    TriadicCase triadic(device, shape, TestSeed());
    triadic.Forward();
    triadic.Backward();
    if (run == 0) expected = triadic.Results();
    ASSERT_EQ(triadic.Results(), expected) << "run " << run;
  }
}

TEST(TriadicTest, LargeLogitsDoNotOverflow) {
  HostLibraryDevice device;
  TriadicCase triadic(device, {.num_queries = 4, .max_first = 70, .max_second = 70}, TestSeed());
  triadic.call().scale = 1e6f;
  triadic.Forward();
  triadic.Backward();
  const TriadicResults results = triadic.Results();
  for (const double value : WidenLibraryValues(MAXSIM_F32, results.output)) EXPECT_TRUE(std::isfinite(value));
  for (const float value : results.lse) EXPECT_TRUE(std::isfinite(value));
}

TEST(TriadicTest, AWrongMemberIsNamed) {
  HostLibraryDevice device;
  TriadicCase triadic(device, {.num_problems = 2, .lengths = true}, TestSeed());
  const maxsim_triadic_call right = triadic.call();
  float output = 0;
  float lse = 0;
  const auto expect_refused = [&](const maxsim_triadic_call& call, const char* text) {
    EXPECT_EQ(maxsim_triadic(&call, &output, &lse), MAXSIM_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(maxsim_last_error()).find(text), std::string::npos) << maxsim_last_error();
  };
  maxsim_triadic_call call = right;
  call.dim = 129;
  expect_refused(call, "call.dim is 129; must be 1 to 128");
  call = right;
  call.scale = std::numeric_limits<float>::quiet_NaN();
  expect_refused(call, "call.scale is not finite");
  call = right;
  call.second_values = nullptr;
  expect_refused(call, "call.second_values is null");
  call = right;
  call.num_queries = 65537;
  expect_refused(call, "call.num_queries is 65537; must be 0 to 65536");
  const int32_t lengths[2] = {1, 6};
  call = right;
  call.first_lengths = lengths;
  expect_refused(call, "first_lengths[1] is 6; must be 0 to 5");
}

TEST(TriadicMaxTest, MaximaAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const TriadicMaxShape& shape : TriadicMaxShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    HostLibraryDevice device;
    TriadicMaxCase(device, shape, TestSeed()).Expect();
    if (HasFatalFailure()) return;
  }
}

TEST(TriadicMaxTest, ResultsHaveTheSameBitsInEveryRunAndWithAnyNumberOfThreads) {
  TriadicMaxShape shape = {.type = MAXSIM_F16, .num_problems = 3, .max_queries = 9, .max_first = 70, .max_second = 80};
  shape.lengths = true;
  TriadicMaxResults expected;
  for (int run = 0; run < (kSanitized ? 8 : 20); ++run) {
    shape.num_threads = run % 4;
    HostLibraryDevice device;
    TriadicMaxCase triadic(device, shape, TestSeed());
    triadic.Forward();
    triadic.Backward();
    if (run == 0) expected = triadic.Results();
    ASSERT_EQ(triadic.Results(), expected) << "run " << run;
  }
}

TEST(TriadicMaxTest, AnArgmaxOutsideOfItsProblemIsRefused) {
  const float row = 1;
  const int32_t argmax[2] = {0, 1};
  float gradient = 1;
  maxsim_triadic_max_call call = {};
  call.struct_size = sizeof(call);
  call.type = MAXSIM_F32;
  call.dim = 1;
  call.num_problems = call.max_queries = call.max_first = call.max_second = 1;
  call.queries = call.first = call.second = &row;
  const maxsim_triadic_max_gradients gradients = {.struct_size = sizeof(gradients),
                                                  .argmax = argmax,
                                                  .maximum_gradients = &gradient,
                                                  .query_gradients = &gradient,
                                                  .first_gradients = nullptr,
                                                  .second_gradients = nullptr};
  EXPECT_EQ(maxsim_triadic_max_backward(&call, &gradients), MAXSIM_INVALID_ARGUMENT);
  EXPECT_STREQ(maxsim_last_error(), "argmax[0] is (0, 1); its problem has 1 x 1 pairs");
}

}  // namespace
}  // namespace maxsim::test
