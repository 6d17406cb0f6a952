// Runs maxsimctl in this process.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tools/maxsimctl/context/context.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {

// The exit code of a run, and the text that it printed.
struct Outcome {
  int code;
  std::string out, err;
};

// Runs maxsimctl with these arguments. `prepare` may change its environment.
inline Outcome RunCtl(const std::vector<std::string>& arguments,
                      const std::function<void(Environment*)>& prepare = nullptr) {
  std::ostringstream out, err;
  Environment environment{.out = out, .err = err};
  if (prepare) prepare(&environment);
  const int code = RunMaxsimctl(arguments, environment);
  return {code, out.str(), err.str()};
}

}  // namespace maxsim::ctl
