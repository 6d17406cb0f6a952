// Tells from the error of a call to a replica what to do next.
#pragma once

#include "absl/status/status.h"

namespace maxsim::cluster {

// Returns whether an error counts against the replica. Errors that the request or its sender caused do not count.
// UNAVAILABLE with a retry delay does not count either: the replica is healthy, but it has not yet applied the write
// that the request must see, or is not connected to the stream that takes its writes.
bool IsFault(const absl::Status& status);

// Returns whether another replica may answer a call that ended with this error: UNAVAILABLE, RESOURCE_EXHAUSTED with
// RetryInfo, a fault of the server, CANCELLED by the server, or a generation that the server does not have.
bool MayAskAnother(const absl::Status& status);

// Returns whether a write that ended with this error has certainly written nothing: the server said so, or there was
// no connection to send it on.
bool IsSafeToRepeat(const absl::Status& status);

// Returns whether an error says that the replica does not have the generation in RerankRequest.generation.
bool IsOtherGeneration(const absl::Status& status);

// Returns whether a write that ended with this error may still be carried out later. True if the connection was lost:
// the call may be under way, or wait in the replica. False if the replica itself answered: it has finished with the
// call then.
bool MayStillHappen(const absl::Status& status);

}  // namespace maxsim::cluster
