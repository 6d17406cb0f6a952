// Keeps the writes of a request among the documents that it may see (UpsertRequest.visible, DeleteRequest.visible).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Check an upsert that has passed CheckDocuments. They return OK for a request without `visible`, INVALID_ARGUMENT for
// a `visible` that does not suit the collection, and the error of `check` (may be null).
//
// Returns INVALID_ARGUMENT about the payload of the first document that `visible` does not match.
absl::Status CheckWrittenVisible(const v1::UpsertRequest& request, const store::Collection& collection);
// Returns PERMISSION_DENIED about the first document whose id is that of a stored document that is not visible. The
// collection's latest snapshot must be passed, since a document may have been written in the meantime.
absl::Status CheckReplacedVisible(const v1::UpsertRequest& request, const store::Collection& collection,
                                  const StopCheck& check);

// Returns for each id of a delete that has passed CheckIds whether a visible document has it. Without `visible` all
// elements are true.
absl::StatusOr<std::vector<bool>> FindVisibleIds(const v1::DeleteRequest& request, const store::Collection& collection,
                                                 const StopCheck& check);

}  // namespace maxsim::service
