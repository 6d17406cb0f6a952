// Decides when to believe that a stream has lost messages. For some seconds after a failover, NATS may report a stream
// as missing or as shorter than it is, until the new leader has caught up.
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/text.h"

namespace maxsim::live {

// The class has no clock: the caller passes MonotonicNow(). Not thread-safe.
class StreamDoubt {
 public:
  // A finding is believed once every look at the stream in the last `patience` has had one.
  explicit StreamDoubt(absl::Duration patience) : patience_(patience) {}

  // Records that a look at the stream had this finding. Returns the finding if it is believed now. Before, returns
  // UNAVAILABLE with the finding as text, because a client that tries again will probably succeed.
  absl::Status Judge(const absl::Status& finding, absl::Time now) {
    since_ = std::min(since_, now);
    if (now - since_ >= patience_) return finding;
    return absl::UnavailableError(Cat(std::string(finding.message()),
                                      ", unless NATS is still recovering; if it lasts for ",
                                      absl::FormatDuration(patience_), ", it is believed"));
  }
  // Records that a look at the stream had no such finding, or could not be taken.
  void Clear() { since_ = absl::InfiniteFuture(); }

 private:
  const absl::Duration patience_;
  absl::Time since_ = absl::InfiniteFuture();  // of the first finding in a row
};

}  // namespace maxsim::live
