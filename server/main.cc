// The main of maxsimd: configuration, signals, exit codes. Uses server.h.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/process/abseil_mutexes.h"
#include "base/process/end_of_memory.h"
#include "base/thread_name.h"
#include "maxsim_version.h"
#include "server/config/load.h"
#include "server/descriptors.h"
#include "server/observability/logging.h"
#include "server/server.h"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOverdue = 4;

// A shutdown takes at most this long in addition to server.shutdown_delay and server.shutdown_grace. Four steps may
// exceed the grace, each by up to 2 s: a scoring call that is still running, refusing new calls, closing the HTTP port,
// and sending trace spans. The systemd units and Kubernetes manifests allow more time than this before they kill the
// process.
constexpr std::chrono::seconds kShutdownSlack(8);

// Waits for signals on its own thread, so that handling a signal may lock and log. The signals must be blocked in every
// thread, so this object is made before any other thread. The thread also ends the process if the shutdown hangs. gRPC
// can cause that: it waits for ever for a thread that it counted but could not start. When no thread can be started, a
// watchdog's could not either, so this one starts early.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, kWakeUp}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }

  // Starts the thread. If the process still runs `shutdown_limit` after a signal that stops the server, the thread ends
  // it with kExitOverdue.
  void Watch(maxsim::Server& server, std::chrono::nanoseconds shutdown_limit) {
    {
      const maxsim::MutexLock lock(&mutex_);
      server_ = &server;
    }
    shutdown_limit_ = shutdown_limit;
    thread_ = std::thread([this] { Loop(); });
  }

  // Keeps later signals from the server. Must be called before it is destroyed. The limit on the shutdown's time still
  // applies.
  void Forget() {
    const maxsim::MutexLock lock(&mutex_);
    server_ = nullptr;
  }

  void Stop() {
    if (!thread_.joinable()) return;
    done_ = true;
    pthread_kill(thread_.native_handle(), kWakeUp);
    thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr int kWakeUp = SIGUSR1;  // from Stop to the thread
  // timeout(1) and some shells signal the process and then its process group. So the same signal is ignored if it comes
  // again within this time.
  static constexpr std::chrono::milliseconds kRepeat{100};

  void Loop() {
    maxsim::NameThisThread("signals");
    int stopped_by = 0;  // the signal that asked for the stop
    Clock::time_point stopped_at;
    while (true) {
      const int number = stopped_by == 0 ? Wait(std::nullopt) : Wait(stopped_at + shutdown_limit_);
      if (done_) return;
      if (number == kWakeUp) continue;  // not from Stop: ignore it
      const maxsim::MutexLock lock(&mutex_);
      if (number == 0) {
        ExitNow(kExitOverdue, "shutdown_overdue: the shutdown takes longer than it may: exit at once");
      }
      if (number == SIGHUP) {
        if (server_ != nullptr) server_->RequestReload();
        continue;
      }
      if (number == stopped_by && Clock::now() - stopped_at < kRepeat) continue;
      // A second signal ends the process immediately. So does the first if the server has never been ready, because no
      // request has been accepted yet.
      if (stopped_by != 0) ExitNow(128 + number, "second signal: exit at once");
      if (server_ != nullptr && !server_->has_served()) ExitNow(0, "stopped while loading");
      stopped_by = number;
      stopped_at = Clock::now();
      if (server_ != nullptr) server_->RequestStop(number == SIGTERM ? "SIGTERM" : "SIGINT");
    }
  }

  // Returns the next signal, or 0 if none comes before the given time.
  int Wait(std::optional<Clock::time_point> until) const {
    while (true) {
      int number = -1;
      if (until.has_value()) {
        const auto left = std::max<Clock::duration>(*until - Clock::now(), Clock::duration::zero());
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
        const timespec limit = {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
        number = sigtimedwait(&set_, nullptr, &limit);
        if (number < 0 && errno == EAGAIN) return 0;
      } else if (sigwait(&set_, &number) != 0) {
        number = -1;
      }
      if (number > 0) return number;
    }
  }

  // noexcept makes the process end even if there is no memory for the log line.
  [[noreturn]] static void ExitNow(int code, const char* reason) noexcept {
    try {
      spdlog::warn(reason);
      maxsim::log::Flush();
    } catch (const std::exception&) {
    }
    _exit(code);
  }

  sigset_t set_;
  std::chrono::nanoseconds shutdown_limit_{};
  maxsim::Mutex mutex_;
  maxsim::Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

int Serve(const maxsim::config::Loaded& loaded) {
  maxsim::SkipDeadlockSearch();
  Signals signals;
  maxsim::log::Initialize(loaded.config.log.level, loaded.config.log.format);
  maxsim::ReportEndOfMemory();
  for (const std::string& warning : loaded.warnings) spdlog::warn("{}", warning);
  maxsim::RaiseDescriptorLimit();
  auto server = maxsim::Server::Create(loaded.config);
  absl::Status status = server.status();
  int exit_code = kExitFailure;
  if (server.ok()) {
    signals.Watch(**server,
                  absl::ToChronoNanoseconds(loaded.config.server.shutdown_delay + loaded.config.server.shutdown_grace) +
                      kShutdownSlack);
    status = (*server)->Start();
    if (status.ok()) exit_code = (*server)->Run();
    signals.Forget();
    server->reset();
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
      if (const auto groups = maxsim::cluster::ReadGroups(loaded->config.cluster); !groups.ok()) {
        std::fprintf(stderr, "maxsimd: %s\n", std::string(groups.status().message()).c_str());
        return kExitUsage;
      }
      std::puts("the configuration is valid");
      return 0;
    case Action::kServe:
      return Serve(*loaded);
  }
  return kExitUsage;
}
