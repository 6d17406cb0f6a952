// The program maxsimctl as a function, so that tests run it without a process.
#pragma once

#include <string>
#include <vector>

#include "tools/maxsimctl/context/environment.h"

namespace maxsim::ctl {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the command could not be carried out, or a check did not pass
inline constexpr int kExitUsage = 2;   // the command line itself is wrong

// Runs the command in `arguments` (without the program's name). Returns the exit code. Writes an error as one line to
// the environment's `err`.
int RunMaxsimctl(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace maxsim::ctl
