// maxsimd: configuration, signals, exit codes. Everything else is server.h.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "kernels/thread_name.h"
#include "maxsim_version.h"
#include "server/config/load.h"
#include "server/logging.h"
#include "server/server.h"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

// Waits for signals on a thread of its own, so that handling one may lock and log. Its signals must be blocked in every
// thread, so it is made before any other thread.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, kWakeUp}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }

  void Watch(maxsim::Server& server) {
    thread_ = std::thread([this, &server] { Loop(server); });
  }

  // Must come before the watched server goes.
  void Stop() {
    if (!thread_.joinable()) return;
    done_ = true;
    pthread_kill(thread_.native_handle(), kWakeUp);
    thread_.join();
  }

 private:
  static constexpr int kWakeUp = SIGUSR1;  // from Stop to the thread
  // timeout(1) and some shells signal the process and then its group: the same one twice is meant once.
  static constexpr std::chrono::milliseconds kRepeat{100};

  void Loop(maxsim::Server& server) {
    maxsim::NameThisThread("signals");
    int stopped_by = 0;  // the signal that asked for the stop
    std::chrono::steady_clock::time_point stopped_at;
    while (true) {
      int number = 0;
      if (sigwait(&set_, &number) != 0) continue;
      if (done_) return;
      if (number == kWakeUp) continue;  // somebody else's: it means nothing here
      if (number == SIGHUP) {
        server.RequestReload();
        continue;
      }
      if (number == stopped_by && std::chrono::steady_clock::now() - stopped_at < kRepeat) continue;
      // Nothing was accepted before the server was ready, so nothing is lost; and a second signal means it.
      if (stopped_by != 0 || !server.has_served()) {
        spdlog::warn(stopped_by != 0 ? "second signal: exit at once" : "stopped while loading");
        maxsim::log::Flush();
        _exit(stopped_by != 0 ? 128 + number : 0);
      }
      stopped_by = number;
      stopped_at = std::chrono::steady_clock::now();
      server.RequestStop(number == SIGTERM ? "SIGTERM" : "SIGINT");
    }
  }

  sigset_t set_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

int Serve(const maxsim::config::Loaded& loaded) {
  Signals signals;
  maxsim::log::Initialize(loaded.config.log.level, loaded.config.log.format);
  for (const std::string& warning : loaded.warnings) spdlog::warn("{}", warning);
  auto server = maxsim::Server::Create(loaded.config);
  absl::Status status = server.status();
  int exit_code = kExitFailure;
  if (server.ok()) {
    signals.Watch(**server);
    status = (*server)->Start();
    if (status.ok()) exit_code = (*server)->Run();
  }
  signals.Stop();
  if (!status.ok()) spdlog::error("maxsimd does not start: {}", std::string(status.message()));
  maxsim::log::Flush();
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using maxsim::config::Action;
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto loaded = maxsim::config::Load(
      args, [](const char* name) { return std::getenv(name); }, maxsim::config::EnvironmentNames());
  if (!loaded.ok()) {
    std::fprintf(stderr, "maxsimd: %s\n", std::string(loaded.status().message()).c_str());
    return kExitUsage;
  }
  const auto warn = [&loaded] {
    for (const std::string& warning : loaded->warnings) std::fprintf(stderr, "maxsimd: warning: %s\n", warning.c_str());
  };
  switch (loaded->action) {
    case Action::kHelp:
      std::fputs(maxsim::config::HelpText().c_str(), stdout);
      return 0;
    case Action::kVersion:
      std::printf("maxsimd %s (%s)\n", maxsim::kVersion, maxsim::kCommit);
      return 0;
    case Action::kPrintConfig:
      warn();
      std::fputs(maxsim::config::ToYaml(*loaded).c_str(), stdout);
      return 0;
    case Action::kCheckConfig:
      warn();
      std::puts("the configuration is valid");
      return 0;
    case Action::kServe:
      return Serve(*loaded);
  }
  return kExitUsage;
}
