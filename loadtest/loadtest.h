// maxsim-loadtest as a function, so that tests can run it without a process.
#pragma once

#include <atomic>
#include <ostream>
#include <string>
#include <vector>

namespace maxsim::loadtest {

// The outputs of a run, other than its files, and the flag that ends it early.
struct Environment {
  std::ostream& out;              // the report and nothing else
  std::ostream& err;              // progress, errors and remarks
  const std::atomic<bool>& stop;  // if set, the run ends, and the measurements so far are reported
};

// Runs the load test that `arguments` (without the program's name) describe. Returns the exit code (command_line.h). An
// error is written to `err` as one line.
int RunLoadtest(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace maxsim::loadtest
