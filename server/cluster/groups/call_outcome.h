// Tells from the error of a call to a replica what to do next.
#pragma once

#include "absl/status/status.h"

namespace maxsim::cluster {

// Returns whether an error counts against the replica. Errors that the request or its sender caused do not count.
// UNAVAILABLE with a retry delay does not count either: the replica is healthy, but it has not yet applied the write
// that the request must see, or is not connected to the stream that takes its writes.
bool IsFault(const absl::Status& status);

// Returns whether it is worth asking another replica after this error: UNAVAILABLE, RESOURCE_EXHAUSTED with RetryInfo,
// a fault of the server, CANCELLED by the server, or a generation or slots that the server does not have.
bool MayAskAnother(const absl::Status& status);

// Returns whether a write that ended with this error has certainly written nothing: the server said so, or does not
// hold the slots that the write names, or there was no connection to send it on.
bool IsSafeToRepeat(const absl::Status& status);

// Returns whether an error says that the replica does not have the generation in RerankRequest.generation.
bool IsOtherGeneration(const absl::Status& status);

// Returns whether an error says that the replica does not hold all slots to which the router has restricted the
// request. Returns false if the client's own filter names slots that the replica does not hold, because a new poll
// would not help.
bool IsOtherSlots(const absl::Status& status);

// Returns whether an error says that the replica does not serve the collection. The router's view says that it does, so
// the collection has been unloaded since, for example from a group that no longer owns slots.
bool IsNotServed(const absl::Status& status);

// Returns whether an error says that the replica has changed since the router last polled it: IsOtherGeneration,
// IsOtherSlots or IsNotServed. If all replicas of a group return such errors, the call may succeed after a new poll.
bool IsOtherView(const absl::Status& status);

// Returns the error of a write as its client gets it. Clients know nothing of slots and groups, so IsOtherSlots and
// IsNotServed become UNAVAILABLE with the reason NOTHING_WRITTEN. Other errors stay as they are.
absl::Status WriteErrorOf(const absl::Status& status);

// Returns whether a write that ended with this error may still be carried out later. True if the connection was lost:
// the call may be under way, or wait in the replica. False if the replica itself answered: it has finished with the
// call then.
bool MayStillHappen(const absl::Status& status);

}  // namespace maxsim::cluster
