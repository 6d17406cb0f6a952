// The queue of calls to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/deficit_round_robin.h"
#include "server/live/local/group_time.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// One call of LiveDocuments::Submit.
struct WriteCall {
  std::vector<store::Write> writes;
  store::LiveDocuments::Done done;
  uint64_t num_bytes = 0;
  absl::Time arrived;  // MonotonicNow()
  store::WriteCaller caller = {};
  // If this is not 0, all of the writes are messages of a stream, and this is the first message's sequence in the
  // stream. If it is 0, the writes are a client's and get their sequences when they are written.
  uint64_t first_sequence = 0;

  // For DeficitRoundRobin.
  uint64_t client() const { return caller.client; }
  uint64_t work() const;
};

struct WriteQueueLimits {
  int64_t max_bytes = 0;          // of the calls that are not answered yet
  absl::Duration max_queue_time;  // the longest time a call may wait in the queue; 0 for no limit
};

// A queue of write calls. A client's calls are taken in order of arrival; clients take turns by deficit round robin.
// The queue counts the bytes of all calls that are not answered yet, including those that are being written. It has no
// clock: the caller passes `now`, which must not go back. Not thread-safe.
class WriteQueue {
 public:
  // `name`, the collection's, is for messages.
  WriteQueue(std::string name, const WriteQueueLimits& limits);

  // Returns OK, or RESOURCE_EXHAUSTED with a RetryInfo in three cases: with the call, the queue would exceed max_bytes;
  // its client would hold more than three times the bytes that are still free (so that other clients find room); or at
  // the recent rate the call would wait for longer than max_queue_time allows. If the queue has no other calls, a call
  // is always admitted.
  absl::Status Admit(const WriteCall& call, absl::Time now) const;
  void Push(WriteCall call);

  bool empty() const { return waiting_.empty(); }
  struct Expired {
    WriteCall call;
    absl::Status reason;
  };
  // Takes the first call, then further calls while the total stays within `max_bytes`. A call that has waited for
  // max_queue_time or whose deadline has passed goes to `expired` instead, with the reason. The caller must call Finish
  // for these calls, too. If memory runs out (std::bad_alloc), nothing has changed.
  std::vector<WriteCall> TakeGroup(uint64_t max_bytes, absl::Time now, std::vector<Expired>* expired);
  // Moves all calls that have waited for max_queue_time or whose deadline has passed to `expired`. Use it while no
  // groups are taken. The caller must call Finish for these calls. If memory runs out, nothing has changed.
  void TakeExpired(absl::Time now, std::vector<Expired>* expired);
  // Records that a taken call of this client has been answered.
  void Finish(uint64_t client, uint64_t num_bytes);
  // Records that the group taken last had this amount of work, and took this long to write.
  void ObserveGroup(uint64_t work, absl::Duration took);
  // Records that calls with this amount of work were taken in this time while other calls waited. For a caller that
  // does not write groups one after another, and so cannot call ObserveGroup.
  void ObserveRate(uint64_t work, absl::Duration took);

  uint64_t num_bytes() const { return num_bytes_; }

 private:
  absl::Status Refusal(const std::string& reason, absl::Duration retry_after) const;
  absl::Duration WaitOf(const WriteCall& call, absl::Time now) const;
  bool MayWait(const WriteCall& call, absl::Time now) const;
  absl::Status CheckMayWait(const WriteCall& call, absl::Time now) const;

  const std::string name_;
  const uint64_t max_bytes_;
  const absl::Duration max_queue_time_;
  DeficitRoundRobin<WriteCall> waiting_;
  size_t num_waiting_ = 0;
  uint64_t num_bytes_ = 0;
  std::unordered_map<uint64_t, uint64_t> bytes_by_client_;  // clients with calls that are not answered yet
  uint64_t taken_work_ = 0;                                 // work of the group that was taken last
  absl::Time taken_ = absl::InfinitePast();
  GroupTime group_time_;
};

}  // namespace maxsim::live
