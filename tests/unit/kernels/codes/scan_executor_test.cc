// Tests scans of many parts in one call, on the CPU backend.
#include "kernels/codes/scan_executor.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/kernels/codes/scan_calls_case.h"

namespace maxsim {
namespace {

class ScanExecutorTest : public testing::Test {
 protected:
  const uint64_t seed_ = test::TestSeed();
  testing::ScopedTrace trace_{__FILE__, __LINE__, test::SeedTrace(seed_)};
  const std::unique_ptr<Backend> backend_ = *CreateCpuBackend({.num_threads = 2, .isa = ""});
};

TEST_F(ScanExecutorTest, EachOfManyCallsHasTheResultsThatItHasAlone) {
  test::ExpectCallsAreScannedAsEachAlone(*backend_, seed_);
}

TEST_F(ScanExecutorTest, TheErrorOfAnyCallIsReturned) { test::ExpectErrorsOfAnyCallAreReturned(*backend_, seed_); }

}  // namespace
}  // namespace maxsim
