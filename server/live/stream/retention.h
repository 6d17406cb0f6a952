// Measures how close a collection is to losing its stream. A stream with limits drops its oldest messages, and a server
// that has not applied a dropped message can no longer follow the stream.
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/live/stream/ordered_stream.h"

namespace maxsim::live {

// A server warns if less than this share of the stream's tightest limit is left; so does the alert in
// deploy/prometheus/alerts.yml. With a maximum age of seven days, half leaves three and a half days to repair the
// server.
inline constexpr double kShortRetentionMargin = 0.5;

// Returns which share of the stream's tightest limit is left before the stream drops the first message after `applied`:
// 1 if there is no such message yet, or no limit; 0 if it is gone. The age and the size of the messages after `applied`
// are estimated, as if all messages of the stream had the same size and came at the same rate.
double RetentionMargin(const StreamInfo& info, uint64_t applied);

// Keeps the margin (RetentionMargin) of one collection, and warns once when it gets short. Only one thread may call
// IsDue, Postpone, Note and NoteLost; any thread may call margin. Times are those of MonotonicNow().
class RetentionWatch {
 public:
  // The interval at which a follower looks at its stream. One look takes about a millisecond.
  static constexpr absl::Duration kInterval = absl::Seconds(10);
  // After a warning, the margin must have been at least this before there is another one. So a margin that moves around
  // kShortRetentionMargin does not fill the log.
  static constexpr double kAmpleMargin = 0.75;

  explicit RetentionWatch(std::string name) : name_(std::move(name)) {}

  // Returns whether kInterval has passed since the last Note or Postpone. Returns true before the first one.
  bool IsDue(absl::Time now) const { return now - looked_at_ >= kInterval; }
  // Makes IsDue return false for kInterval, because a look at the stream failed.
  void Postpone(absl::Time now) { looked_at_ = now; }
  // Records the state of the stream. `applied` is the sequence of the last message that the collection has applied.
  void Note(const StreamInfo& info, uint64_t applied, absl::Time now);
  // Records that the collection does not follow its stream, until the next Note.
  void NoteLost(absl::Time now);

  // Returns the margin at the last Note, or 1 before the first one. If the collection does not follow its stream,
  // assumes that the stream got a message right after the last Note. The margin then shrinks by the time since that
  // Note, as a share of the stream's maximum age.
  double margin(absl::Time now) const;

 private:
  void Warn(absl::Time now);

  const std::string name_;
  absl::Time looked_at_ = absl::InfinitePast();
  bool is_short_ = false;
  uint64_t applied_ = 0;
  StreamInfo info_;

  mutable Mutex mutex_;
  double margin_ ABSL_GUARDED_BY(mutex_) = 1;  // at noted_at_
  absl::Time noted_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Duration max_age_ ABSL_GUARDED_BY(mutex_);
  bool is_lost_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace maxsim::live
