// Runs every fuzz target once over the inputs that the repository keeps for it. Needs no clang. An input that makes a
// check fail ends the process; the last line of the output then names the input's file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

class CorpusTest : public testing::TestWithParam<Target> {};

TEST_P(CorpusTest, KeptInputsBreakNoPromise) {
  // The working folder is the repository. Seeds that make_seeds.py writes exist only if the build found a Python.
  std::vector<std::string> files = FilesIn("tests/fuzz/corpus/" + GetParam().name);
  for (std::string& seed : FilesIn(MAXSIM_FUZZ_SEEDS "/" + GetParam().name)) files.push_back(std::move(seed));
  if (files.empty()) GTEST_SKIP() << "no inputs are here";
  for (const std::string& path : files) {
    std::cout << path << std::endl;
    std::ifstream file(path, std::ios::binary);
    const std::string input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    GetParam().run(input);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CorpusTest, testing::ValuesIn(Targets()),
                         [](const testing::TestParamInfo<Target>& target) { return target.param.name; });

}  // namespace
}  // namespace maxsim::fuzz
