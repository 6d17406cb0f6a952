#include "server/live/write_queue.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "client/status.h"

namespace maxsim::live {
namespace {

constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(20);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(5);

// The rate follows the last few groups, so that a slow disk shows soon and one slow sync does not.
constexpr double kRateWeight = 0.2;

}  // namespace

WriteQueue::WriteQueue(std::string name, int64_t max_bytes)
    : name_(std::move(name)), max_bytes_(static_cast<uint64_t>(std::max<int64_t>(max_bytes, 0))) {}

absl::Status WriteQueue::Admit(uint64_t num_bytes) const {
  if (num_bytes_ == 0 || num_bytes_ + num_bytes <= max_bytes_) return absl::OkStatus();
  absl::Status status = absl::ResourceExhaustedError(
      Cat("too many writes to collection ", name_, " wait: ", FormatBytesExactly(num_bytes_), " and this call's ",
          FormatBytesExactly(num_bytes), " are more than live.max_queued_bytes, which is ",
          FormatBytesExactly(max_bytes_)));
  absl::Duration delay = kMinRetryDelay;
  if (bytes_per_second_ > 0) delay = absl::Seconds(static_cast<double>(num_bytes_) / 2 / bytes_per_second_);
  client::SetRetryAfter(std::clamp(delay, kMinRetryDelay, kMaxRetryDelay), status);
  return status;
}

void WriteQueue::Push(WriteCall call) {
  const uint64_t num_bytes = call.num_bytes;
  calls_.push_back(std::move(call));
  num_bytes_ += num_bytes;
}

std::vector<WriteCall> WriteQueue::TakeGroup(uint64_t max_bytes) {
  size_t count = 0;
  uint64_t bytes = 0;
  for (; count < calls_.size(); ++count) {
    if (count > 0 && bytes + calls_[count].num_bytes > max_bytes) break;
    bytes += calls_[count].num_bytes;
  }
  std::vector<WriteCall> group;
  group.reserve(count);  // before any call leaves the queue
  while (group.size() < count) {
    group.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  return group;
}

void WriteQueue::Finish(uint64_t num_bytes, absl::Duration took) {
  num_bytes_ -= num_bytes;
  const double seconds = absl::ToDoubleSeconds(took);
  if (seconds <= 0) return;
  const double rate = static_cast<double>(num_bytes) / seconds;
  bytes_per_second_ = bytes_per_second_ == 0 ? rate : bytes_per_second_ + kRateWeight * (rate - bytes_per_second_);
}

}  // namespace maxsim::live
