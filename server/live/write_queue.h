// The calls that wait for the thread that writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// One call of LiveDocuments::Submit.
struct WriteCall {
  std::vector<store::Write> writes;
  store::LiveDocuments::Done done;
  uint64_t num_bytes = 0;
  absl::Time arrived;  // MonotonicNow()
  // The writes are messages of a stream, all of them, and the first one has this sequence there; 0: they are of
  // clients, and get their sequences here.
  uint64_t first_sequence = 0;
};

// Holds calls in their order, and counts the bytes of all that were not answered yet, those that are being written
// included. The class is not thread-safe: its owner guards it.
class WriteQueue {
 public:
  // `name`, the collection's, is for messages.
  WriteQueue(std::string name, int64_t max_bytes);

  // Returns RESOURCE_EXHAUSTED, with a RetryInfo of about the time that half of the bytes take, where a call of so many
  // bytes has no room. A call that is larger than the bound has room when there is no other.
  absl::Status Admit(uint64_t num_bytes) const;
  void Push(WriteCall call);

  bool empty() const { return calls_.empty(); }
  // Takes the first calls, at least one where there is one, and of more than one at most `max_bytes`.
  std::vector<WriteCall> TakeGroup(uint64_t max_bytes);
  // Calls of so many bytes that were taken have been answered, which took so long.
  void Finish(uint64_t num_bytes, absl::Duration took);

  uint64_t num_bytes() const { return num_bytes_; }

 private:
  const std::string name_;
  const uint64_t max_bytes_;
  std::deque<WriteCall> calls_;
  uint64_t num_bytes_ = 0;
  double bytes_per_second_ = 0;  // of late; 0: unknown
};

}  // namespace maxsim::live
