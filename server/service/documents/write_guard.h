// Refuses or leaves out writes of documents that the client may not see (UpsertRequest.visible, DeleteRequest.visible).
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// Check an upsert that has passed CheckDocuments. They return OK for a request without `visible`, the errors of
// CanonicalVisible if `visible` does not suit the collection, and the error of `check` (may be null).
//
// Returns INVALID_ARGUMENT about the payload of the first new document that does not match `visible`.
absl::Status CheckWrittenVisible(const v1::UpsertRequest& request, const store::Collection& collection);
// Returns PERMISSION_DENIED about the first document that would replace a stored document which does not match
// `visible`. Pass the collection's latest snapshot, because a document may have been written in the meantime.
absl::Status CheckReplacedVisible(const v1::UpsertRequest& request, const store::Collection& collection,
                                  const StopCheck& check);

// The deletes of a call. Only those of visible documents go to the collection.
struct GuardedDeletes {
  explicit GuardedDeletes(std::vector<store::Write> all) : writes(std::move(all)), is_visible(writes.size(), true) {}

  std::vector<store::Write> writes;  // those of visible documents, in order
  std::vector<bool> is_visible;      // [all deletes]
};

// Leaves out the deletes of ids that no visible document of the snapshot has. The ids must be of the collection's type.
// If `visible` matches every document (Filter::Everything), leaves out nothing, not even unknown ids. Errors are those
// of the checks above.
absl::Status LeaveOutHidden(const v1::Filter& visible, const store::Collection& collection, const StopCheck& check,
                            GuardedDeletes& deletes);

// Returns the results of all deletes, given those of the visible ones. The result of each hidden one is "not found".
store::WriteResults WithHidden(const store::WriteResults& written, const std::vector<bool>& is_visible);

}  // namespace maxsim::service
