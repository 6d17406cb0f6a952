// The command line of maxsim-loadtest.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "loadtest/options.h"

namespace maxsim::loadtest {

// Report::failed says what failing is to a sweep.
inline constexpr int kExitOk = 0;           // every answer was right, or a rejection
inline constexpr int kExitFailed = 1;       // errors, wrong answers, or the run could not be made
inline constexpr int kExitUsage = 2;        // the command line itself is wrong
inline constexpr int kExitClientBound = 3;  // the load tester was the bound: its figures are its own, not the server's

// The options of `arguments` (without the program's name), checked as far as that needs no server. Nullopt: nothing is
// to be run, and `exit_code` says how it ends; --help and --version are written to `out`, what is wrong to `err`, in a
// line that names the flag, the value and what is allowed.
std::optional<Options> ParseCommandLine(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                                        int& exit_code);

}  // namespace maxsim::loadtest
