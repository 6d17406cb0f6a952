#include "base/process/end_of_memory.h"

#include <sys/resource.h>

#include <csignal>
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

TEST_F(EndOfMemoryDeathTest, AThreadThatCannotBeStartedEndsTheProcessWithALine) {
  EXPECT_DEATH(
      {
        ReportEndOfMemory();
        rlimit none = {};  // not rlimit{0, 0}: the macro would take the comma for one between its own arguments
        setrlimit(RLIMIT_AS, &none);
        []() noexcept { std::thread([] {}).join(); }();  // the test would catch what is thrown
      },
      "^out_of_threads: the system starts no more threads \\(ulimit -u, ulimit -v, TasksMax, pids.max\\): the process "
      "ends\n$");
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
        rlimit none = {};  // not rlimit{0, 0}: the macro would take the comma for one between its own arguments
        setrlimit(RLIMIT_AS, &none);
        std::abort();
      },
      "^out_of_memory: a library aborted, and the system gives no memory: the process ends\n$");
}

// Writes through a null pointer, like a library that does not check the result of malloc. volatile hides from the
// compiler that the pointer is null.
void UseNull() {
  volatile int* volatile memory = nullptr;
  memory[8] = 1;
}

TEST_F(EndOfMemoryDeathTest, ANullPointerThatIsUsedWithoutMemorySaysSoAndEndsTheProcessBySigsegv) {
  EXPECT_EXIT(
      {
        ReportEndOfMemory();
        rlimit none = {};  // not rlimit{0, 0}: the macro would take the comma for one between its own arguments
        setrlimit(RLIMIT_AS, &none);
        UseNull();
      },
      testing::KilledBySignal(SIGSEGV),
      "^out_of_memory: a library used memory that it did not get, and the system gives none: the process ends\n$");
}

TEST_F(EndOfMemoryDeathTest, ANullPointerThatIsUsedForAnotherReasonSaysNothingOfMemory) {
  EXPECT_EXIT(
      {
        ReportEndOfMemory();
        UseNull();
      },
      testing::KilledBySignal(SIGSEGV), "^$");
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
