#include "base/process/end_of_memory.h"

#include <sys/resource.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/values/sanitized.h"

namespace maxsim {
namespace {

class EndOfMemoryDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer: it has handlers of its own";
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
};

TEST_F(EndOfMemoryDeathTest, AnAllocationThatNobodyCanRefuseEndsTheProcessWithALine) {
  EXPECT_DEATH(
      {
        ReportEndOfMemory();
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      "^out_of_memory: memory ran out where no request can be refused: the process ends\n$");
}

TEST_F(EndOfMemoryDeathTest, AnotherExceptionIsToldAsBefore) {
  EXPECT_DEATH(
      {
        ReportEndOfMemory();
        std::thread([] { throw std::runtime_error("something else"); }).join();
      },
      "something else");
}

TEST_F(EndOfMemoryDeathTest, AnAbortWithoutMemorySaysSo) {
  EXPECT_DEATH(
      {
        ReportEndOfMemory();
        rlimit none = {};  // braces with a comma would be two arguments of the macro
        setrlimit(RLIMIT_AS, &none);
        std::abort();
      },
      "^out_of_memory: a library aborted, and the system gives no memory: the process ends\n$");
}

TEST_F(EndOfMemoryDeathTest, AnAbortForAnotherReasonSaysNothingOfMemory) {
  EXPECT_DEATH(
      {
        ReportEndOfMemory();
        std::abort();
      },
      "^$");
}

}  // namespace
}  // namespace maxsim
