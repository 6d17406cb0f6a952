// Finds messages of a stream that a later version of maxsimd has written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/text.h"
#include "server/live/stream/ordered_stream.h"
#include "server/live/stream/stream_message.h"

namespace maxsim::live {

// Returns the number of messages before the first one that a later version of maxsimd has written. Servers of that
// version apply such a message, so skipping it would make this server's documents differ from theirs.
inline size_t NumBeforeLaterVersion(absl::Span<const StreamMessage> messages) {
  const auto later = std::find_if(messages.begin(), messages.end(), [](const StreamMessage& message) {
    return LaterVersionOf(message.data).has_value();
  });
  return static_cast<size_t>(later - messages.begin());
}

// Returns FAILED_PRECONDITION for a message that a later version has written. The error names the collection, the
// message's sequence and the versions.
inline absl::Status OfLaterVersion(const std::string& collection, const StreamMessage& message) {
  return absl::FailedPreconditionError(Cat("collection ", collection, ": the message of sequence ", message.sequence,
                                           " has format version ", LaterVersionOf(message.data).value_or(0),
                                           "; this version reads ", int{kMessageVersion},
                                           ": update this server to the version of the servers that write"));
}

}  // namespace maxsim::live
