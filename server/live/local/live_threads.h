// The threads that write, compact and publish for all live collections of a server, and the limit on open collections.
#pragma once

#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/live/local/shared_threads.h"

namespace maxsim::live {

// Thread-safe. Must outlive the collections that use it.
class LiveThreads {
 public:
  explicit LiveThreads(int max_collections) : max_collections_(max_collections) {}
  LiveThreads(const LiveThreads&) = delete;
  LiveThreads& operator=(const LiveThreads&) = delete;

  // Counts as one open live collection while it exists.
  class Place {
   public:
    explicit Place(LiveThreads* threads) : threads_(threads) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    SharedThreads* writers() const { return &threads_->writers_; }
    SharedThreads* compactors() const { return &threads_->compactors_; }
    // Collections that have a stream start these threads.
    SharedThreads* publishers() const { return &threads_->publishers_; }

   private:
    LiveThreads* const threads_;
  };
  // Returns RESOURCE_EXHAUSTED if live.max_collections are already open, or if the system cannot start a thread.
  absl::StatusOr<std::unique_ptr<Place>> Enter(std::string_view name);

 private:
  // A group commit mostly waits for the disk, so there may be more writers than cores. Compactions share the disk's
  // bandwidth, and running a large number at a time would only make each take longer.
  static constexpr size_t kMaxWriters = 8;
  static constexpr size_t kMaxCompactors = 4;
  // A step of a publisher passes messages to the NATS library, which writes them to the connection. The step blocks
  // while the connection's buffers are full. With a single thread, one slow connection would delay all collections.
  static constexpr size_t kMaxPublishers = 4;

  const int max_collections_;
  SharedThreads writers_{"live_writer", kMaxWriters};
  SharedThreads compactors_{"live_compactor", kMaxCompactors};
  SharedThreads publishers_{"live_publisher", kMaxPublishers};
  Mutex mutex_;
  int num_collections_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace maxsim::live
