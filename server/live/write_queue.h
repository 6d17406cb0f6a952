// The calls that wait for the thread that writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/deficit_round_robin.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// One call of LiveDocuments::Submit.
struct WriteCall {
  std::vector<store::Write> writes;
  store::LiveDocuments::Done done;
  uint64_t num_bytes = 0;
  absl::Time arrived;  // MonotonicNow()
  store::WriteCaller caller = {};
  // The writes are messages of a stream, all of them, and the first one has this sequence there; 0: they are of
  // clients, and get their sequences here.
  uint64_t first_sequence = 0;

  // What DeficitRoundRobin asks for.
  uint64_t client() const { return caller.client; }
  uint64_t work() const;
};

struct WriteQueueLimits {
  int64_t max_bytes = 0;          // of the calls that were not answered yet
  absl::Duration max_queue_time;  // how long a call may wait until it is taken; 0: for any time
};

// Holds calls until they are taken: those of a client in order of arrival, and clients by deficit round robin. Counts
// the bytes of all calls that were not answered yet, those that are being written included. Has no clock: `now` is the
// caller's, and does not go back. The class is not thread-safe: its owner guards it.
class WriteQueue {
 public:
  // `name`, the collection's, is for messages.
  WriteQueue(std::string name, const WriteQueueLimits& limits);

  // Returns OK, or RESOURCE_EXHAUSTED with a RetryInfo: where the call would pass max_bytes, where its client alone
  // would hold more than three times what is left free of it (so that other clients find room), or where the call would
  // wait for longer than max_queue_time by the recent rate. A call is admitted in any case when there is no other.
  absl::Status Admit(const WriteCall& call, absl::Time now) const;
  void Push(WriteCall call);

  bool empty() const { return waiting_.empty(); }
  // Takes the first call, then further calls while their bytes stay within `max_bytes`. Calls that have waited for
  // max_queue_time or whose deadline has passed are appended to `expired` with their reason instead, and are to be
  // finished as well. Where there is no memory (std::bad_alloc), nothing has changed.
  struct Expired {
    WriteCall call;
    absl::Status reason;
  };
  std::vector<WriteCall> TakeGroup(uint64_t max_bytes, absl::Time now, std::vector<Expired>* expired);
  // Takes note that a call of this client, which was taken, has been answered.
  void Finish(uint64_t client, uint64_t num_bytes);
  // Takes note that a group of this work was written in this time.
  void ObserveGroup(uint64_t work, absl::Duration took);

  uint64_t num_bytes() const { return num_bytes_; }

 private:
  absl::Status Refusal(const std::string& reason, absl::Duration retry_after) const;
  absl::Duration WaitOf(const WriteCall& call, absl::Time now) const;
  absl::Status CheckMayWait(const WriteCall& call, absl::Time now) const;

  const std::string name_;
  const uint64_t max_bytes_;
  const absl::Duration max_queue_time_;
  DeficitRoundRobin<WriteCall> waiting_;
  size_t num_waiting_ = 0;
  uint64_t num_bytes_ = 0;
  std::unordered_map<uint64_t, uint64_t> bytes_by_client_;  // of clients with a call that is not answered
  uint64_t taken_work_ = 0;                                 // of the group that was taken last
  absl::Time taken_ = absl::InfinitePast();
  double work_per_second_ = 0;  // of late; 0: unknown
};

}  // namespace maxsim::live
