// maxsim-loadtest: measures a maxsimd server under load.
#include <atomic>
#include <csignal>
#include <iostream>

#include "base/process/abseil_mutexes.h"
#include "loadtest/loadtest.h"

namespace {

std::atomic<bool> stop{false};

// The first signal ends the run, and its report is written. The second signal ends the process.
void OnSignal(int signal) {
  stop.store(true);
  std::signal(signal, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  maxsim::SkipDeadlockSearch();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  return maxsim::loadtest::RunLoadtest({argv + 1, argv + argc}, {std::cout, std::cerr, stop});
}
