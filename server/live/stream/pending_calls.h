// The calls of clients whose writes are on their way through a stream: what was sent, what the stream has, and what
// applying gave.
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

// One write on its way.
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
  uint64_t first_number = 0;  // of its first write; the others' numbers follow
  std::vector<PendingWrite> writes;
  size_t num_sent = 0;       // of the first ones, at least once
  size_t num_in_stream = 0;  // that the stream has acknowledged, or that came back
  size_t num_applied = 0;
  absl::Time first_sent = absl::InfinitePast();
  absl::Time durable = absl::InfiniteFuture();  // when the stream had them all
};

// Numbers writes from 1 on and makes the ids of their messages, which differ from those of any other process. Not
// thread-safe: its owner guards it.
class PendingCalls {
 public:
  // Ids are NONCE-NUMBER; `nonce` is of hexadecimal digits.
  explicit PendingCalls(std::string nonce);

  // Adds a call, whose messages must be encoded, after the others. Its writes get the next numbers.
  PendingCall* Add(std::unique_ptr<PendingCall> call);
  // Removes the call, and returns it.
  std::unique_ptr<PendingCall> Take(const PendingCall& call);

  bool empty() const { return calls_.empty(); }
  // Returns the first call that has a write which was not sent yet; null if there is none.
  PendingCall* FindUnsent();
  // Returns whether an earlier write of the same document was sent, and the stream has not acknowledged it. This write
  // must wait for that: the earlier one may have to be sent again, and would then arrive after this one.
  bool HasUnansweredBefore(const PendingCall& call, size_t idx) const;
  // Calls `visit` for each call in order until it returns false; it must not add or take calls.
  void Visit(const std::function<bool(PendingCall&)>& visit);

  std::string IdOf(uint64_t number) const;
  // Finds a write by its message's id. Returns nullopt for ids of other senders and of calls that are gone.
  struct Found {
    PendingCall* call = nullptr;
    size_t idx = 0;
  };
  std::optional<Found> Find(std::string_view id);

  // Records that the stream has a write, under this sequence.
  void NoteInStream(const Found& found, uint64_t sequence, absl::Time now);
  // Records the result of applying a write, and its sequence in the stream. Returns true once all of the call's writes
  // are applied.
  bool NoteApplied(const Found& found, const store::WriteResult& result, uint64_t sequence, absl::Time now);

  // Returns the bytes of messages that were sent and that the stream has not acknowledged.
  uint64_t bytes_in_flight() const { return bytes_in_flight_; }
  // Records that a message is being sent, for the first time or again.
  void NoteSent(PendingCall& call, size_t idx, absl::Time now);

 private:
  const std::string nonce_;
  uint64_t next_number_ = 1;
  uint64_t next_to_send_ = 1;  // all before it were sent, or are gone
  uint64_t bytes_in_flight_ = 0;
  std::unordered_set<std::string> ids_in_flight_;           // of documents; int64 ids by their bytes
  std::map<uint64_t, std::unique_ptr<PendingCall>> calls_;  // by the number of their first write
};

// Returns the index of the first write that must be sent again: it was last sent before `before`, and the stream has
// not acknowledged it. Returns nullopt if there is none.
std::optional<size_t> FindUnanswered(const PendingCall& call, absl::Time before);

}  // namespace maxsim::live
