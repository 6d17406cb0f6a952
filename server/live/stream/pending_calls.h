// The calls of clients whose writes are on their way through a stream. For each write: whether it was sent, whether the
// stream has it, and the result of applying it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/live/local/write_queue.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// A write on its way through the stream.
struct PendingWrite {
  int32_t slot = 0;
  std::shared_ptr<const std::string> data;  // the message; null once the stream has it
  absl::Time sent = absl::InfinitePast();
  uint64_t sequence = 0;  // in the stream; 0 while it is unknown
  bool is_applied = false;
  store::WriteResult result;  // once it is applied
};

struct PendingCall {
  WriteCall call;
  absl::Time deadline;
  uint64_t first_number = 0;  // number of its first write; its other writes have the next numbers
  std::vector<PendingWrite> writes;
  size_t num_sent = 0;       // this many of the first writes were sent at least once
  size_t num_in_stream = 0;  // writes that the stream has acknowledged or delivered
  size_t num_applied = 0;
  absl::Time first_sent = absl::InfinitePast();
  absl::Time durable = absl::InfiniteFuture();  // when the stream had all of the writes
};

// Numbers writes from 1 on, and makes the ids of their messages, which are unique among all processes. Not thread-safe.
class PendingCalls {
 public:
  // Ids are NONCE-NUMBER. `nonce` consists of hexadecimal digits, and must be unique to the process.
  explicit PendingCalls(std::string nonce);

  // Adds a call after the existing ones. The messages of its writes must have been encoded. Numbers its writes,
  // beginning with the number after the last write of the previous call.
  PendingCall* Add(std::unique_ptr<PendingCall> call);
  // Removes the call, and returns it.
  std::unique_ptr<PendingCall> Take(const PendingCall& call);

  bool empty() const { return calls_.empty(); }
  // Returns the first call with a write that was not sent yet, or null if there is none.
  PendingCall* FindUnsent();
  // Returns whether the stream has not yet acknowledged an earlier write of the same document. If so, this write must
  // wait: the earlier one may have to be sent again, and would arrive after this one.
  bool HasUnansweredBefore(const PendingCall& call, size_t idx) const;
  // Calls `visit` for each call, in order, until `visit` returns false. `visit` must not add or take calls.
  void Visit(const std::function<bool(PendingCall&)>& visit);

  std::string IdOf(uint64_t number) const;
  struct Found {
    PendingCall* call = nullptr;
    size_t idx = 0;
  };
  // Finds a write by the id of its message. Returns nullopt for an id of another sender, or of a call that was taken.
  std::optional<Found> Find(std::string_view id);

  // Records that the stream has a write, and the write's sequence.
  void NoteInStream(const Found& found, uint64_t sequence, absl::Time now);
  // Records the result of applying a write, and its sequence in the stream. Returns true once all of the call's writes
  // are applied.
  bool NoteApplied(const Found& found, const store::WriteResult& result, uint64_t sequence, absl::Time now);

  // Returns the bytes of messages that were sent and not yet acknowledged by the stream.
  uint64_t bytes_in_flight() const { return bytes_in_flight_; }
  // Records that a message is being sent, for the first time or again.
  void NoteSent(PendingCall& call, size_t idx, absl::Time now);

 private:
  const std::string nonce_;
  uint64_t next_number_ = 1;
  uint64_t next_to_send_ = 1;  // all writes with smaller numbers were sent or are gone
  uint64_t bytes_in_flight_ = 0;
  std::unordered_set<std::string> ids_in_flight_;           // of documents; int64 ids by their bytes
  std::map<uint64_t, std::unique_ptr<PendingCall>> calls_;  // by the number of their first write
};

// Returns the index of the first write that was last sent earlier than `before` and that the stream has not
// acknowledged: it must be sent again. Returns nullopt if there is none.
std::optional<size_t> FindUnanswered(const PendingCall& call, absl::Time before);

}  // namespace maxsim::live
