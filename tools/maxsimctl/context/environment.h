// Where a run of maxsimctl reads and writes besides its arguments.
#pragma once

#include <functional>
#include <ostream>

namespace maxsim::ctl {

struct Environment {
  std::ostream& out;             // results, and nothing else
  std::ostream& err;             // errors and remarks
  bool out_is_terminal = false;  // colours are on by default
  int columns = 100;             // width of the terminal
  // Returns the value of an environment variable, or null. NO_COLOR is looked up here; MAXSIM_SERVER by CLI11 in the
  // process' own.
  std::function<const char*(const char*)> getenv = [](const char*) -> const char* { return nullptr; };
};

}  // namespace maxsim::ctl
