// Tells from the error of a call to a replica what to do next.
#pragma once

#include "absl/status/status.h"

namespace maxsim::cluster {

// Returns whether an error counts against the replica. Errors that the request or its sender caused do not count.
// UNAVAILABLE with a retry delay does not count either: the replica is healthy, but it has not yet applied the write
// that the request must see, or is not connected to the stream that takes its writes.
bool IsFault(const absl::Status& status);

// Returns whether another replica may answer a call that ended with this error: UNAVAILABLE, RESOURCE_EXHAUSTED with
// RetryInfo, a fault of the server, CANCELLED by the server, or a generation or slots that the server does not have.
bool MayAskAnother(const absl::Status& status);

// Returns whether a write that ended with this error has certainly written nothing: the server said so, or does not
// hold the slots that the write names, or there was no connection to send it on.
bool IsSafeToRepeat(const absl::Status& status);

// Returns whether an error says that the replica does not have the generation in RerankRequest.generation.
bool IsOtherGeneration(const absl::Status& status);

// Returns whether an error says that the replica does not hold all slots to which the router has restricted the
// request. False if the client's own filter names slots that the replica does not hold: no other view helps then.
bool IsOtherSlots(const absl::Status& status);

// Returns whether an error says that the replica does not serve the collection. The router took it for one that does,
// so the collection has been unloaded since, for example from a group that no longer owns slots.
bool IsNotServed(const absl::Status& status);

// Returns whether an error says that the replica has changed since the router last asked what it has:
// IsOtherGeneration, IsOtherSlots or IsNotServed. If all replicas of a group say so, a call may succeed with a fresh
// view.
bool IsOtherView(const absl::Status& status);

// Returns the error of a write as its client gets it. A client knows of no slots and groups, so for
// IsOtherSlots and IsNotServed that is UNAVAILABLE with the mark that nothing was written. Other errors stay as they
// are.
absl::Status WriteErrorOf(const absl::Status& status);

// Returns whether a write that ended with this error may still be carried out later. True if the connection was lost:
// the call may be under way, or wait in the replica. False if the replica itself answered: it has finished with the
// call then.
bool MayStillHappen(const absl::Status& status);

}  // namespace maxsim::cluster
