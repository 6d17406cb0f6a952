#include "server/observability/log_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "server/observability/log_event.h"
#include "spdlog/details/os.h"
#include "spdlog/pattern_formatter.h"

namespace maxsim::log {
namespace {

constexpr int kPollMs = 50;                            // The writer checks give_up at this interval.
constexpr std::chrono::milliseconds kGiveUpTime{500};  // The time that the writer has to see give_up.
constexpr int kCrashWaitMs = 500;

std::array<std::atomic<uint64_t>, 2> dropped_lines{};

// These are spdlog's own colours of levels, from trace to critical, for terminals.
constexpr std::array<std::string_view, 6> kColors = {"\033[37m",        "\033[36m",        "\033[32m",
                                                     "\033[33m\033[1m", "\033[31m\033[1m", "\033[1m\033[41m"};
constexpr std::string_view kColorEnd = "\033[m";

}  // namespace

uint64_t DroppedLines(DropReason reason) { return dropped_lines[static_cast<size_t>(reason)]; }
void CountDroppedLine(DropReason reason) { ++dropped_lines[static_cast<size_t>(reason)]; }

struct DescriptorSink::State {
  State(int descriptor, size_t max_bytes)
      : fd(descriptor),
        max_queued_bytes(max_bytes),
        in_color(isatty(descriptor) == 1 && spdlog::details::os::is_color_terminal()) {}

  const int fd;
  const size_t max_queued_bytes;
  const bool in_color;
  // The crash handler reads these without the mutex, because the crashed thread may hold the mutex.
  std::atomic<uint64_t> num_queued{0};
  std::atomic<uint64_t> num_done{0};  // written or dropped
  std::atomic<bool> give_up{false};   // The process ends: queued lines are dropped.

  Mutex mutex;
  ConditionVariable work;  // for the writer
  ConditionVariable done;  // num_done or `ended` changed
  std::unique_ptr<spdlog::formatter> formatter ABSL_GUARDED_BY(mutex) = std::make_unique<spdlog::pattern_formatter>();
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  size_t queued_bytes ABSL_GUARDED_BY(mutex) = 0;
  uint64_t num_left_out ABSL_GUARDED_BY(mutex) = 0;  // dropped since the last line that was written
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;            // The writer no longer uses this state.
  bool flush_timed_out ABSL_GUARDED_BY(mutex) = false;  // since then nothing was written
  std::thread writer;                                   // Only the constructor and the destructor touch it.

  std::string Format(const spdlog::details::log_msg& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    spdlog::memory_buf_t text;
    message.color_range_start = message.color_range_end = 0;
    formatter->format(message, text);
    const std::string_view line(text.data(), text.size());
    const size_t begin = message.color_range_start;
    const size_t end = message.color_range_end;
    const auto level = static_cast<size_t>(message.level);
    if (!in_color || end <= begin || end > line.size() || level >= kColors.size()) return std::string(line);
    std::string colored(line.substr(0, begin));
    colored.append(kColors[level]).append(line.substr(begin, end - begin)).append(kColorEnd).append(line.substr(end));
    return colored;
  }

  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    CountDroppedLine(DropReason::kReader);
    ++num_left_out;
    ++num_done;
  }

  // Takes the next line from the queue. If lines before it were dropped, returns it with a line before it that states
  // their number.
  std::string Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::string text;
    if (const uint64_t count = std::exchange(num_left_out, 0); count > 0) {
      const std::string payload = std::string("log_lines_dropped") + kRecordSeparator + "lines" + kUnitSeparator +
                                  kUnitSeparator + std::to_string(count);
      text = Format(spdlog::details::log_msg("", spdlog::level::warn, payload));
    }
    queued_bytes -= lines.front().size();
    text += lines.front();
    lines.pop_front();
    return text;
  }

  // Waits for at most `time` until the writer has ended, and returns whether it has.
  bool WaitUntilEnded(MutexLock& lock, std::chrono::milliseconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!ended) {
      if (!done.WaitUntil(lock, deadline)) break;
    }
    return ended;
  }

  // Writes `text`. The writer calls this without holding the mutex. Returns false if it could not write all of the
  // text.
  bool WriteAll(std::string_view text) const {
    while (!text.empty()) {
      pollfd wanted{.fd = fd, .events = POLLOUT, .revents = 0};
      const int ready = poll(&wanted, 1, kPollMs);
      if (ready <= 0) {
        if (give_up) return false;
        continue;
      }
      const ssize_t size = write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
      if (size >= 0) {
        text.remove_prefix(static_cast<size_t>(size));
      } else if (errno == EAGAIN) {
        // The poll reported room, but the pipe has been filled since, and another process has set O_NONBLOCK on the
        // file description that it shares with this process.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (give_up) return false;
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }
};

namespace {

struct CrashCounts {
  const std::atomic<uint64_t>* num_queued = nullptr;
  const std::atomic<uint64_t>* num_done = nullptr;
};
CrashCounts crash_counts;
std::atomic<const CrashCounts*> crash_sink{nullptr};

// Gives the writer's thread time to write the queued lines. Does only what is safe in a signal handler. If the
// crashed thread holds the mutex or is the writer, this waits until its limit without effect.
void OnCrash(int number) {
  if (const CrashCounts* counts = crash_sink; counts != nullptr) {
    for (int ms = 0; ms < kCrashWaitMs && *counts->num_done < *counts->num_queued; ++ms) {
      const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
      nanosleep(&pause, nullptr);
    }
  }
  raise(number);  // The default action follows once this handler has returned.
}

}  // namespace

DescriptorSink::DescriptorSink(int fd, const Options& options)
    : flush_time_(options.flush_time), state_(std::make_shared<State>(fd, options.max_queued_bytes)) {
  state_->writer = std::thread([state = state_] { Write(state); });
}

DescriptorSink::~DescriptorSink() {
  if (const CrashCounts* counts = crash_sink; counts != nullptr && counts->num_done == &state_->num_done) {
    crash_sink = nullptr;
  }
  MutexLock lock(&state_->mutex);
  state_->stopping = true;
  state_->work.NotifyAll();
  const auto time = state_->flush_timed_out ? std::chrono::milliseconds(0) : flush_time_;
  if (!state_->WaitUntilEnded(lock, time)) {
    state_->give_up = true;
    state_->WaitUntilEnded(lock, kGiveUpTime);
  }
  const bool ended = state_->ended;
  lock.Unlock();
  if (ended) {
    state_->writer.join();
  } else {
    state_->writer.detach();
  }
}

void DescriptorSink::Write(const std::shared_ptr<State>& state) {
  NameThisThread("log");
  MutexLock lock(&state->mutex);
  while (!state->give_up) {
    while (!state->stopping && state->lines.empty()) state->work.Wait(lock);
    if (state->lines.empty()) break;
    const std::string text = state->Take();
    lock.Unlock();
    const bool written = state->WriteAll(text);
    lock.Lock();
    if (written) {
      ++state->num_done;
      state->flush_timed_out = false;
    } else {
      state->Drop();
    }
    state->done.NotifyAll();
  }
  state->ended = true;
  state->done.NotifyAll();
}

void DescriptorSink::log(const spdlog::details::log_msg& message) {
  {
    const MutexLock lock(&state_->mutex);
    std::string line = state_->Format(message);
    state_->queued_bytes += line.size();
    state_->lines.push_back(std::move(line));
    ++state_->num_queued;
    while (state_->queued_bytes > state_->max_queued_bytes && state_->lines.size() > 1) {
      state_->queued_bytes -= state_->lines.front().size();
      state_->lines.pop_front();
      state_->Drop();
    }
  }
  state_->work.NotifyOne();
}

void DescriptorSink::flush() {
  MutexLock lock(&state_->mutex);
  const uint64_t target = state_->num_queued;
  const auto deadline = std::chrono::steady_clock::now() + flush_time_;
  while (state_->num_done < target && state_->done.WaitUntil(lock, deadline)) {
  }
  if (state_->num_done < target) state_->flush_timed_out = true;
}

void DescriptorSink::set_pattern(const std::string& pattern) {
  set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern));
}

void DescriptorSink::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  const MutexLock lock(&state_->mutex);
  state_->formatter = std::move(formatter);
}

void DescriptorSink::FlushOnCrash() {
  crash_counts = {.num_queued = &state_->num_queued, .num_done = &state_->num_done};
  crash_sink = &crash_counts;
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction old {};
    // Keep a handler that already exists, such as a sanitizer's or a test framework's, since it reports more than
    // this one.
    if (sigaction(number, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = OnCrash;
    action.sa_flags = SA_RESETHAND;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace maxsim::log
