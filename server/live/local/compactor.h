// Compacts a live collection in the background, on threads shared by all collections.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "server/live/local/live_options.h"
#include "server/live/local/shared_threads.h"

namespace maxsim::live {

// The usage of a collection, on which CompactionTrigger bases its decision.
struct LiveUsage {
  uint64_t sequence = 0;            // of the last write
  uint64_t compacted_sequence = 0;  // of the last write that the generation holds
  uint64_t segment_bytes = 0;       // of token vectors, ids and payloads in segments
  uint64_t num_documents = 0;       // that are alive
  uint64_t num_tombstones = 0;
};

// Decides when a compaction is due. For one thread at a time.
class CompactionTrigger {
 public:
  // If there are fewer tombstones than this, their share is ignored. Otherwise a small collection whose documents are
  // often replaced would be compacted every few writes.
  static constexpr uint64_t kMinTombstones = 1024;

  explicit CompactionTrigger(const LiveOptions& options) : options_(options) {}

  // Records the usage at the time `now`, which must not go back.
  void Observe(const LiveUsage& usage, absl::Time now);
  // Records that there was no memory for a segment. This makes a compaction due.
  void NeedMemory() { needs_memory_ = true; }

  // Returns why a compaction is due, or "".
  std::string_view Due(absl::Time now) const;
  // Returns the arrival time of the oldest write that no generation holds. The error is at most a 64th of
  // LiveOptions::compact_after.
  std::optional<absl::Time> oldest_write() const;
  bool needs_memory() const { return needs_memory_; }
  uint64_t compacted_sequence() const { return usage_.compacted_sequence; }

 private:
  // The write `first_sequence` arrived at `time`. The writes after it, up to the next mark, arrived a little later.
  struct Mark {
    uint64_t first_sequence = 0;
    absl::Time time;
  };

  const LiveOptions options_;
  LiveUsage usage_;
  std::deque<Mark> marks_;  // of writes after compacted_sequence
  bool needs_memory_ = false;
};

// The class is thread-safe.
class Compactor {
 public:
  struct Work {
    // Compacts the collection and serves the result. Called by one thread at a time.
    std::function<absl::Status(const StopSignal* stop, std::string_view reason)> compact;
    // Drops the log records that no generation needs. Called after RequestTruncation.
    std::function<absl::Status()> truncate;
  };
  // `name`, the collection's, is for log lines.
  Compactor(std::string name, const LiveOptions& options, SharedThreads* threads, Work work);
  ~Compactor();

  // Stops the compaction that is running, if any, and waits for it.
  void Stop();

  void Observe(const LiveUsage& usage);
  void NeedMemory();
  void RequestTruncation();
  // Returns why the last compaction failed; OK after one that succeeded.
  absl::Status status() const;

 private:
  absl::Time RunOnce();
  // Both release the mutex while they work.
  void CompactIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TruncateIfAsked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const bool enabled_;
  const Work work_;
  StopSignal stop_;

  mutable Mutex mutex_;
  CompactionTrigger trigger_ ABSL_GUARDED_BY(mutex_);
  bool truncate_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  SharedTask task_;  // last, because its steps use the other members
};

}  // namespace maxsim::live
