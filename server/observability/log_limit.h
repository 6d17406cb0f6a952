// Limits the number per second and the length of log lines that clients can cause.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace maxsim::log {

// Returns `text`, or its first `max_bytes` bytes with a note of how many are missing. Never cuts a UTF-8 sequence.
std::string Truncate(std::string_view text, size_t max_bytes);

// Admits `max_lines` lines in any second, counted from the first of them. Thread-safe.
class LogRateLimiter {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LogRateLimiter(int max_lines) : max_lines_(max_lines) {}

  // Returns nullopt if the line at `now` must be left out, else the number of lines that were left out since the last
  // admitted one.
  std::optional<uint64_t> Admit(Clock::time_point now);

 private:
  const int max_lines_;
  Mutex mutex_;
  Clock::time_point begin_ ABSL_GUARDED_BY(mutex_){};  // begin of the second that num_lines_ counts in
  int num_lines_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace maxsim::log
