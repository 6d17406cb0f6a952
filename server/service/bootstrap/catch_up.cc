#include "server/service/bootstrap/catch_up.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/monotonic_clock.h"
#include "base/text.h"

namespace maxsim::service {
namespace {

// How often the state of the collection is read.
constexpr std::chrono::milliseconds kCatchUpPoll{20};

// Finds out whether a collection has stopped applying messages.
class StallWatch {
 public:
  explicit StallWatch(absl::Duration max_stall) : max_stall_(max_stall) {}

  // Call it repeatedly with the collection's newest state and error. Returns an error if the collection has applied no
  // message for `max_stall` and had an error in this time: the last error, even if that is gone by now, because a
  // collection that tries again has no error for a moment.
  absl::Status Note(const store::LiveState& state, const absl::Status& error) {
    const absl::Time now = MonotonicNow();
    const bool may_get_room = state.is_compacting && state.compaction.ok();
    if (!sequence_.has_value() || state.sequence != *sequence_ || may_get_room) {
      sequence_ = state.sequence;
      since_ = now;
      error_ = absl::OkStatus();
    }
    if (!error.ok()) error_ = error;
    if (error_.ok() || now - since_ < max_stall_) return absl::OkStatus();
    // Leaves out the error's details. Their retry delay is meant for writes, and would make clients repeat the whole
    // bootstrap.
    return {error_.code(), Cat("the new collection has applied no message of the stream for ",
                               absl::FormatDuration(max_stall_), ": ", error_.message())};
  }

 private:
  const absl::Duration max_stall_;
  std::optional<uint64_t> sequence_;
  absl::Time since_;  // when a message was last applied
  absl::Status error_;
};

}  // namespace

absl::Status WaitUntilCaughtUp(const store::LiveDocuments& live, uint64_t least, absl::Duration max_stall,
                               const StopSignal& stop) {
  StallWatch watch(max_stall);
  std::optional<uint64_t> end;
  while (true) {
    if (absl::Status status = stop.status(); !status.ok()) return status;
    const store::LiveState state = live.state();
    absl::Status error = state.status;
    if (!state.stream.has_value()) return absl::FailedPreconditionError("the new collection follows no stream");
    if (state.stream->connected) {
      if (!end.has_value()) end = std::max(state.stream->last_sequence, least);
      if (state.sequence >= *end) return absl::OkStatus();
      // After a failover the stream may soon have more messages. But if the source was wrong about its sequence, the
      // server must not wait for ever.
      if (error.ok() && state.sequence >= state.stream->last_sequence) {
        error = absl::UnavailableError(Cat("the stream ends with message ", state.stream->last_sequence,
                                           ", before message ", *end, " that the source says it has"));
      }
    } else if (absl::IsFailedPrecondition(state.status) || absl::IsDataLoss(state.status)) {
      return state.status;
    }
    if (absl::Status stalled = watch.Note(state, error); !stalled.ok()) return stalled;
    std::this_thread::sleep_for(kCatchUpPoll);
  }
}

}  // namespace maxsim::service
