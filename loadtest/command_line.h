// The command line of maxsim-loadtest.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "loadtest/run/options.h"

namespace maxsim::loadtest {

// The exit codes of maxsim-loadtest. Report::failed says when a sweep has failed.
inline constexpr int kExitOk = 0;      // every answer was right or a rejection
inline constexpr int kExitFailed = 1;  // errors, wrong answers, or the run could not be made
inline constexpr int kExitUsage = 2;   // the command line itself is wrong
inline constexpr int kExitClientBound =
    3;  // the load tester was the bottleneck, so its figures do not show the server's limit

// Parses `arguments` (without the program's name), and checks them as far as possible without a server. Returns nullopt
// if there is nothing to run. Always sets `exit_code`. Texts of --help and --version go to `out`; an error goes to
// `err`, as one line that names the flag, the value and what is allowed.
std::optional<Options> ParseCommandLine(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                                        int& exit_code);

}  // namespace maxsim::loadtest
