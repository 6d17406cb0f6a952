#include "server/live/stream/retention.h"

#include <algorithm>
#include <utility>

#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

double Share(absl::Duration part, absl::Duration whole) { return absl::FDivDuration(part, whole); }

}  // namespace

double RetentionMargin(const StreamInfo& info, uint64_t applied) {
  if (info.first_sequence > applied + 1) return 0;
  if (applied >= info.last_sequence) return 1;
  const StreamRetention& retention = info.retention;
  const auto num_held = static_cast<double>(info.last_sequence - info.first_sequence + 1);
  const auto num_missing = static_cast<double>(info.last_sequence - applied);
  double used = 0;
  if (retention.max_messages > 0) used = num_missing / static_cast<double>(retention.max_messages);
  if (retention.max_bytes > 0) {
    const double bytes = static_cast<double>(retention.num_bytes) * num_missing / num_held;
    used = std::max(used, bytes / static_cast<double>(retention.max_bytes));
  }
  if (retention.max_age > absl::ZeroDuration()) {
    const double position = num_held > 1 ? (num_missing - 1) / (num_held - 1) : 0;
    const absl::Duration age = retention.newest_age + position * (retention.oldest_age - retention.newest_age);
    used = std::max(used, Share(age, retention.max_age));
  }
  return std::clamp(1 - used, 0.0, 1.0);
}

void RetentionWatch::Note(const StreamInfo& info, uint64_t applied, absl::Time now) {
  looked_at_ = now;
  applied_ = applied;
  info_ = info;
  {
    const MutexLock lock(&mutex_);
    margin_ = RetentionMargin(info, applied);
    noted_at_ = now;
    max_age_ = info.retention.max_age;
    is_lost_ = false;
  }
  Warn(now);
}

void RetentionWatch::NoteLost(absl::Time now) {
  {
    const MutexLock lock(&mutex_);
    is_lost_ = true;
  }
  Warn(now);
}

double RetentionWatch::margin(absl::Time now) const {
  const MutexLock lock(&mutex_);
  if (!is_lost_ || max_age_ <= absl::ZeroDuration() || now <= noted_at_) return margin_;
  return std::max(margin_ - Share(now - noted_at_, max_age_), 0.0);
}

void RetentionWatch::Warn(absl::Time now) {
  const double left = margin(now);
  if (left >= kAmpleMargin) is_short_ = false;
  if (left >= kShortRetentionMargin || std::exchange(is_short_, true)) return;
  log::Write(spdlog::level::warn, "stream_retention_short",
             {{"name", name_},
              {"margin", left},
              {"sequence", applied_},
              {"first_sequence", info_.first_sequence},
              {"last_sequence", info_.last_sequence},
              {"max_age_seconds", absl::ToDoubleSeconds(info_.retention.max_age)},
              {"max_messages", info_.retention.max_messages},
              {"max_bytes", info_.retention.max_bytes}});
}

}  // namespace maxsim::live
