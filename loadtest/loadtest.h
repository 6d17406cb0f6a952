// maxsim-loadtest as a function, so that tests run it without a process.
#pragma once

#include <atomic>
#include <ostream>
#include <string>
#include <vector>

namespace maxsim::loadtest {

// Where a run writes besides the files it is given.
struct Environment {
  std::ostream& out;              // the report, and nothing else
  std::ostream& err;              // progress, errors and remarks
  const std::atomic<bool>& stop;  // set: ends the run, and reports what was measured
};

// `arguments` without the program's name. Returns the exit code (command_line.h). Errors are one line on `err`.
int RunLoadtest(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace maxsim::loadtest
