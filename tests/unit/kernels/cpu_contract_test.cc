// Runs the tests of the backend contract on every instruction set of this machine, and on emulated AVX-512 and AMX.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/maxsim.h"
#include "tests/support/contract/backend_contract.h"
#include "tests/support/values/random_documents.h"
#include "tests/unit/kernels/emulated_isa.h"

namespace maxsim {
namespace {

std::vector<std::string> Isas() {
  std::vector<std::string> isas = CpuIsas();
  for (const cpu::Isa* isa : test::EmulatedIsas()) isas.emplace_back(isa->name);
  return isas;
}

class CpuContractTest : public testing::TestWithParam<std::tuple<std::string, test::ContractCase>> {
 protected:
  // Several threads claim the work, in a different order each time. The results must not depend on that order.
  static constexpr int kNumThreads = 3;

  Backend& backend() {
    static auto* const backends = new std::map<std::string, std::unique_ptr<Backend>>;
    std::unique_ptr<Backend>& backend = (*backends)[std::get<0>(GetParam())];
    if (backend == nullptr) {
      const std::string& name = std::get<0>(GetParam());
      for (const cpu::Isa* isa : test::EmulatedIsas()) {
        if (name == isa->name) backend = cpu::MakeCpuBackend(*isa, kNumThreads);
      }
      if (backend == nullptr) backend = *CreateCpuBackend({.num_threads = kNumThreads, .isa = name});
    }
    return *backend;
  }
};

TEST_P(CpuContractTest, Holds) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  std::get<1>(GetParam()).run(backend());
}

INSTANTIATE_TEST_SUITE_P(Contract, CpuContractTest,
                         testing::Combine(testing::ValuesIn(Isas()), testing::ValuesIn(test::BackendContract())),
                         [](const auto& param_info) {
                           return std::get<0>(param_info.param) + "_" + std::get<1>(param_info.param).name;
                         });

}  // namespace
}  // namespace maxsim
