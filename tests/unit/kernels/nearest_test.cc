// Tests the functions of nearest.h on the CPU, as programs call them.
#include <gtest/gtest.h>

#include <string>

#include "kernels/library/include/maxsim/nearest.h"
#include "tests/support/library/library_device.h"
#include "tests/support/library/nearest_case.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

TEST(NearestTest, DistancesAndGradientsAreThoseOfFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const NearestShape& shape : NearestShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    HostLibraryDevice device;
    NearestCase(device, shape, TestSeed()).Expect();
    if (HasFatalFailure()) return;
  }
}

TEST(NearestTest, ResultsHaveTheSameBitsInEveryRunAndWithAnyNumberOfThreads) {
  NearestShape shape = {.type = MAXSIM_BF16, .num_sets = 3, .max_x = 700, .max_y = 300, .lengths = true, .ties = true};
  NearestResults expected;
  for (int run = 0; run < (kSanitized ? 8 : 20); ++run) {
    shape.num_threads = run % 4;
    HostLibraryDevice device;
    NearestCase nearest(device, shape, TestSeed());
    nearest.Forward();
    nearest.Backward();
    if (run == 0) expected = nearest.Results();
    ASSERT_EQ(nearest.Results(), expected) << "run " << run;
  }
}

// Returns a call with one point x and some points y.
maxsim_nearest_call OnePoint(const float* x, const float* y, int64_t num_y, int32_t dim) {
  maxsim_nearest_call call = {};
  call.struct_size = sizeof(call);
  call.type = MAXSIM_F32;
  call.dim = dim;
  call.num_sets = 1;
  call.max_x = 1;
  call.max_y = num_y;
  call.x = x;
  call.y = y;
  return call;
}

TEST(NearestTest, NothingCancelsFarFromTheOrigin) {
  // The square of 4096 takes all 24 bits of an FP32 mantissa. So |x|^2 - 2xy + |y|^2 would lose the small distance and
  // return 0 or nonsense.
  const float x[3] = {4096, 4096, 4096};
  const float y[6] = {4096, 4096, 4096.5f, 4096, 4096.25f, 4096};
  const maxsim_nearest_call call = OnePoint(x, y, 2, 3);
  float distance = 0;
  int32_t argmin = 0;
  ASSERT_EQ(maxsim_nearest(&call, &distance, &argmin), MAXSIM_OK) << maxsim_last_error();
  EXPECT_EQ(distance, 0.0625f);
  EXPECT_EQ(argmin, 1);
}

// Expects that the call is refused as invalid, with an error that mentions `text`.
void ExpectRefused(const maxsim_nearest_call& call, const char* text) {
  float distance = 0;
  int32_t argmin = 0;
  EXPECT_EQ(maxsim_nearest(&call, &distance, &argmin), MAXSIM_INVALID_ARGUMENT) << text;
  EXPECT_NE(std::string(maxsim_last_error()).find(text), std::string::npos) << maxsim_last_error();
}

TEST(NearestTest, AWrongMemberIsNamed) {
  HostLibraryDevice device;
  NearestCase nearest(device, {.num_sets = 2, .lengths = true}, TestSeed());
  const maxsim_nearest_call right = nearest.call();
  maxsim_nearest_call call = right;
  call.dim = 4097;
  ExpectRefused(call, "call.dim is 4097; must be 1 to 4096");
  call = right;
  call.type = MAXSIM_I8;
  ExpectRefused(call, "call.type is 4");
  call = right;
  call.max_x = int64_t{1} << 30;
  ExpectRefused(call, "call.max_x is 1073741824; with num_sets = 2 it must be at most 1073741823");
  call = right;
  call.y = nullptr;
  ExpectRefused(call, "call.y is null");
  call = right;
  call.struct_size = 8;
  ExpectRefused(call, "call.struct_size is 8");
  const int32_t lengths[2] = {1, 8};
  call = right;
  call.y_lengths = lengths;
  ExpectRefused(call, "y_lengths[1] is 8; must be 0 to 7");
}

TEST(NearestTest, AnArgminOutsideOfItsSetIsRefused) {
  const float point = 0;
  const int32_t argmin = 1;
  float gradient = 1;
  const maxsim_nearest_call call = OnePoint(&point, &point, 1, 1);
  const maxsim_nearest_gradients gradients = {.struct_size = sizeof(gradients),
                                              .argmin = &argmin,
                                              .distance_gradients = &gradient,
                                              .x_gradients = &gradient,
                                              .y_gradients = nullptr};
  EXPECT_EQ(maxsim_nearest_backward(&call, &gradients), MAXSIM_INVALID_ARGUMENT);
  EXPECT_STREQ(maxsim_last_error(), "argmin[0] is 1; its set has 1 points y");
}

}  // namespace
}  // namespace maxsim::test
