// This is the main() of maxsimctl, the command line of maxsimd.
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "tools/maxsimctl/maxsimctl.h"

int main(int argc, char** argv) {
  // Without this, SIGPIPE would kill `maxsimctl ... | head` silently. Now it exits with an error about its output.
  std::signal(SIGPIPE, SIG_IGN);
  // gRPC prints its own lines about a failed TLS handshake. maxsimctl's error line already explains it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  maxsim::ctl::Environment environment{.out = std::cout, .err = std::cerr};
  environment.out_is_terminal = isatty(STDOUT_FILENO) != 0;
  environment.getenv = [](const char* name) -> const char* { return std::getenv(name); };
  winsize size{};
  if (environment.out_is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    environment.columns = size.ws_col;
  }
  return maxsim::ctl::RunMaxsimctl({argv + 1, argv + argc}, environment);
}
