#include "server/live/local/compactor.h"

#include <algorithm>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

constexpr absl::Duration kFirstWait = absl::Milliseconds(500);
constexpr absl::Duration kMaxWait = absl::Minutes(2);

// How often the age of writes is checked. The other reasons for a compaction are checked whenever they change.
constexpr absl::Duration kPoll = absl::Seconds(1);

// At most this many marks are made per LiveOptions::compact_after, which limits the error of oldest_write().
constexpr int kMarksPerPeriod = 64;

}  // namespace

void CompactionTrigger::Observe(const LiveUsage& usage, absl::Time now) {
  const uint64_t before = usage_.sequence;
  if (usage.compacted_sequence != usage_.compacted_sequence) needs_memory_ = false;
  usage_ = usage;
  while (marks_.size() > 1 && marks_[1].first_sequence <= usage.compacted_sequence + 1) marks_.pop_front();
  if (usage.sequence <= usage.compacted_sequence) {
    marks_.clear();
  } else if (marks_.empty() ||
             (usage.sequence > before && now - marks_.back().time >= options_.compact_after / kMarksPerPeriod)) {
    marks_.push_back({std::max(before, usage.compacted_sequence) + 1, now});
  }
}

std::optional<absl::Time> CompactionTrigger::oldest_write() const {
  if (marks_.empty()) return std::nullopt;
  return marks_.front().time;
}

std::string_view CompactionTrigger::Due(absl::Time now) const {
  if (usage_.sequence <= usage_.compacted_sequence) return "";  // there is nothing to compact
  if (needs_memory_) return "memory";
  if (usage_.segment_bytes >= static_cast<uint64_t>(options_.compact_at_bytes)) return "bytes";
  const auto tombstones = static_cast<double>(usage_.num_tombstones);
  if (usage_.num_tombstones >= kMinTombstones &&
      tombstones >= options_.compact_at_tombstone_share * (tombstones + static_cast<double>(usage_.num_documents))) {
    return "tombstones";
  }
  if (!marks_.empty() && now - marks_.front().time >= options_.compact_after) return "age";
  return "";
}

Compactor::Compactor(std::string name, const LiveOptions& options, SharedThreads* threads, Work work)
    : name_(std::move(name)),
      enabled_(options.compact),
      work_(std::move(work)),
      trigger_(options),
      backoff_(kFirstWait),
      task_(threads, [this] { return RunOnce(); }) {
  if (enabled_) task_.Wake();
}

Compactor::~Compactor() { Stop(); }

void Compactor::Stop() {
  stop_.Request(absl::StatusCode::kUnavailable);
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  task_.Stop();
}

void Compactor::Observe(const LiveUsage& usage) {
  const absl::Time now = MonotonicNow();
  {
    const MutexLock lock(&mutex_);
    trigger_.Observe(usage, now);
    if (!enabled_ || now < not_before_ || trigger_.Due(now).empty()) return;
  }
  task_.Wake();
}

void Compactor::NeedMemory() {
  {
    const MutexLock lock(&mutex_);
    if (trigger_.needs_memory()) return;
    trigger_.NeedMemory();
  }
  task_.Wake();
}

void Compactor::RequestTruncation() {
  {
    const MutexLock lock(&mutex_);
    truncate_ = true;
  }
  task_.Wake();
}

absl::Status Compactor::status() const {
  const MutexLock lock(&mutex_);
  return status_;
}

void Compactor::CompactIfDue() {
  const absl::Time now = MonotonicNow();
  if (!enabled_ || stopping_ || now < not_before_) return;
  const std::string_view reason = trigger_.Due(now);
  if (reason.empty()) return;
  const uint64_t before = trigger_.compacted_sequence();
  mutex_.Unlock();
  const absl::Status status = work_.compact(&stop_, reason);
  mutex_.Lock();
  if (stopping_) return;
  status_ = status;
  // At this point the trigger has already observed the usage after the compaction. If the compaction changed nothing,
  // wait before the next one.
  const bool moved = status.ok() && trigger_.compacted_sequence() > before;
  backoff_ = moved ? kFirstWait : std::min(2 * backoff_, kMaxWait);
  not_before_ = moved ? absl::InfinitePast() : MonotonicNow() + backoff_;
}

void Compactor::TruncateIfAsked() {
  if (!truncate_ || stopping_) return;
  truncate_ = false;
  mutex_.Unlock();
  const absl::Status status = work_.truncate();
  if (!status.ok()) {
    // The records that remain in the log only cost disk space. Truncation is requested again when the next generation
    // is served.
    log::Write(spdlog::level::warn, "log_not_truncated", {{"name", name_}, {"error", status.ToString()}});
  }
  mutex_.Lock();
}

// Does the work that is due, and returns when to check again.
absl::Time Compactor::RunOnce() {
  MutexLock lock(&mutex_);
  TruncateIfAsked();
  CompactIfDue();
  if (stopping_) return absl::InfiniteFuture();
  const absl::Time now = MonotonicNow();
  const bool is_due = enabled_ && now >= not_before_ && !trigger_.Due(now).empty();
  if (truncate_ || is_due) return absl::InfinitePast();
  return enabled_ ? now + kPoll : absl::InfiniteFuture();
}

}  // namespace maxsim::live
