// The inputs and outputs of a run of maxsimctl, except for its command line.
#pragma once

#include <functional>
#include <ostream>

namespace maxsim::ctl {

struct Environment {
  std::ostream& out;             // results, and nothing else
  std::ostream& err;             // errors and remarks
  bool out_is_terminal = false;  // colours are on by default
  int columns = 100;             // width of the terminal
  // Returns the value of an environment variable, or null. Used for NO_COLOR; CLI11 reads MAXSIM_SERVER from the
  // process's own environment.
  std::function<const char*(const char*)> getenv = [](const char*) -> const char* { return nullptr; };
};

}  // namespace maxsim::ctl
