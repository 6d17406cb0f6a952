// Test cases that check any backend against the contract in kernels/maxsim.h. A test binary makes a backend and runs
// every case on it:
//
//   class CudaContractTest : public testing::TestWithParam<ContractCase> {};
//   TEST_P(CudaContractTest, Holds) { GetParam().run(backend); }
//   INSTANTIATE_TEST_SUITE_P(Contract, CudaContractTest, testing::ValuesIn(BackendContract()), ContractCaseName);
//
// Cases report failures through GoogleTest. Their random data starts from TestSeed().
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/maxsim.h"

namespace maxsim::test {

struct ContractCase {
  const char* name;  // reads as a sentence about the backend
  void (*run)(Backend& backend);

  friend void PrintTo(const ContractCase& contract_case, std::ostream* out) { *out << contract_case.name; }
};

// Returns every case.
std::vector<ContractCase> BackendContract();

// Names a parameterised test after its case.
inline std::string ContractCaseName(const testing::TestParamInfo<ContractCase>& info) { return info.param.name; }

// Each part of BackendContract has a file of its own.
std::vector<ContractCase> ScoreCases();         // scores against the FP64 reference
std::vector<ContractCase> SelectionCases();     // top-k, ties, repeated candidates
std::vector<ContractCase> IndependenceCases();  // a score has the same bits, whatever else is in the call
std::vector<ContractCase> CallCases();          // Align, Stage, Load, bad arguments
std::vector<ContractCase> AppendableCases();    // documents to which more documents are appended

}  // namespace maxsim::test
