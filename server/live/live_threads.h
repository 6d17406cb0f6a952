// What all live collections of a server share: the threads that write and compact, and the limit of how many there are.
#pragma once

#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/live/shared_threads.h"

namespace maxsim::live {

// The class is thread-safe. It must outlive the collections.
class LiveThreads {
 public:
  explicit LiveThreads(int max_collections) : max_collections_(max_collections) {}
  LiveThreads(const LiveThreads&) = delete;
  LiveThreads& operator=(const LiveThreads&) = delete;

  // One of the live collections that there may be, until it is destroyed.
  class Place {
   public:
    explicit Place(LiveThreads* threads) : threads_(threads) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    SharedThreads* writers() const { return &threads_->writers_; }
    SharedThreads* compactors() const { return &threads_->compactors_; }

   private:
    LiveThreads* const threads_;
  };
  // RESOURCE_EXHAUSTED where there are as many as live.max_collections says, or the system has no thread left.
  absl::StatusOr<std::unique_ptr<Place>> Enter(std::string_view name);

 private:
  // A group commit waits for the disk, so that more threads than cores are of use. A compaction is bound by the disk's
  // rate, and more than a few at a time only take longer each.
  static constexpr size_t kMaxWriters = 8;
  static constexpr size_t kMaxCompactors = 4;

  const int max_collections_;
  SharedThreads writers_{"live_writer", kMaxWriters};
  SharedThreads compactors_{"live_compactor", kMaxCompactors};
  Mutex mutex_;
  int num_collections_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace maxsim::live
