// The main function of a program that contains several test files:
//
//   PROGRAM [--files=FILE.cc,...] [GOOGLETEST'S OPTIONS...]
//
// --files runs only the cases that these source files define. The files are named without folders, so all files of a
// program must have different names.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace {

std::string_view FileName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// Restricts GoogleTest's filter to the cases that are defined in `files` and also selected by the caller's filter.
// Returns those of `files` that define no case.
std::set<std::string> KeepFiles(const std::set<std::string>& files) {
  std::set<std::string> without_case = files;
  std::string kept;
  std::string others;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  for (int s = 0; s < tests.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *tests.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string file(FileName(test.file()));
      (files.contains(file) ? kept : others) += std::string(":") + suite.name() + "." + test.name();
      without_case.erase(file);
    }
  }
  std::string filter = testing::GTEST_FLAG(filter);
  if (filter == "*") {
    filter = kept.empty() ? "-*" : kept.substr(1);  // shorter than what it leaves out
  } else if (!others.empty()) {
    // In a filter, the patterns after the first '-' exclude cases.
    filter += (filter.find('-') == std::string::npos ? "-" : "") + others;
  }
  testing::GTEST_FLAG(filter) = filter;
  return without_case;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  std::set<std::string> files;
  for (int i = 1; i < argc; ++i) {
    absl::string_view list = argv[i];
    if (!absl::ConsumePrefix(&list, "--files=")) {
      std::cerr << argv[i] << ": no such option\n";
      return 2;
    }
    for (absl::string_view file : absl::StrSplit(list, ',')) files.emplace(file);
  }
  if (!files.empty()) {
    for (const std::string& file : KeepFiles(files)) {
      std::cerr << "no test case is defined in " << file << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
