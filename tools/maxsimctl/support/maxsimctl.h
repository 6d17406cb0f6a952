// The program maxsimctl as a function, so that tests run it without a process.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace maxsim::ctl {

// Where a run reads and writes besides its arguments.
struct Environment {
  std::ostream& out;             // results, and nothing else
  std::ostream& err;             // errors and remarks
  bool out_is_terminal = false;  // colours are on by default
  int columns = 100;             // width of the terminal
  // Returns the value of an environment variable, or null. NO_COLOR is looked up here; MAXSIM_SERVER by CLI11 in the
  // process' own.
  std::function<const char*(const char*)> getenv = [](const char*) -> const char* { return nullptr; };
};

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the command could not be carried out, or a check did not pass
inline constexpr int kExitUsage = 2;   // the command line itself is wrong

// Runs one command; `arguments` without the program's name. Returns the exit code. Errors are one line on `err`.
int RunMaxsimctl(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace maxsim::ctl
