#include "server/observability/log_limit.h"

#include <utility>

#include "server/observability/log_sink.h"

namespace maxsim::log {

std::string Truncate(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t size = max_bytes;
  // Do not cut within a UTF-8 sequence: its bytes after the first one are 10xxxxxx, and there are at most three of
  // them.
  for (int i = 0; i < 3 && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80u; ++i) --size;
  return std::string(text.substr(0, size)) + "... (" + std::to_string(text.size() - size) + " bytes more)";
}

std::optional<uint64_t> LogRateLimiter::Admit(Clock::time_point now) {
  const MutexLock lock(&mutex_);
  if (num_lines_ == 0 || now - begin_ >= std::chrono::seconds(1)) {
    begin_ = now;
    num_lines_ = 0;
  }
  if (num_lines_ >= max_lines_) {
    ++num_left_out_;
    CountDroppedLine(DropReason::kRate);
    return std::nullopt;
  }
  ++num_lines_;
  return std::exchange(num_left_out_, 0);
}

}  // namespace maxsim::log
