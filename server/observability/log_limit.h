// Bounds on log lines that clients cause: how many in a second, and how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace maxsim::log {

// `text`, or its first `max_bytes` with a note of how many more there were. Never ends within a UTF-8 sequence.
std::string Cut(std::string_view text, size_t max_bytes);

// Lets `max_lines` lines pass in any second, counted from the first of them. Thread-safe.
class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LineLimit(int max_lines) : max_lines_(max_lines) {}

  // nullopt where the line at `now` must be left out; else how many were, since the last one that passed.
  std::optional<uint64_t> Take(Clock::time_point now);

 private:
  const int max_lines_;
  std::mutex mutex_;
  // Guarded by mutex_.
  Clock::time_point begin_{};  // of the second that num_lines_ counts
  int num_lines_ = 0;
  uint64_t num_left_out_ = 0;
};

}  // namespace maxsim::log
