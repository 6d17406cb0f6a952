// Runs the tests that every backend must pass (tests/support/contract/backend_contract.h) on the CUDA backend.
#include <gtest/gtest.h>

#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract/backend_contract.h"

namespace maxsim::test {
namespace {

class GpuContractTest : public testing::TestWithParam<ContractCase> {};

TEST_P(GpuContractTest, Holds) {
  if (!GpuBackend().ok()) GTEST_SKIP() << "needs a GPU: " << GpuBackend().status().message();
  SCOPED_TRACE(SeedTrace(TestSeed()));
  GetParam().run(**GpuBackend());
}

TEST_P(GpuContractTest, HoldsOnTilesOfLongCalls) {
  if (!GpuBackend().ok()) GTEST_SKIP() << "needs a GPU: " << GpuBackend().status().message();
  SCOPED_TRACE(SeedTrace(TestSeed()));
  const TilesAllowed tiles(**GpuBackend(), kTilesOfLongCalls);
  GetParam().run(**GpuBackend());
}

INSTANTIATE_TEST_SUITE_P(Contract, GpuContractTest, testing::ValuesIn(BackendContract()), ContractCaseName);

}  // namespace
}  // namespace maxsim::test
