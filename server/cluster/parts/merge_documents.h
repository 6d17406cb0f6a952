// Merges the groups' answers to a write or a read of documents into the one that a single server would give. Pure: no
// network, no clock.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"
#include "server/cluster/parts/split.h"

namespace maxsim::cluster {

// The functions below take one answer per part, and for each part the positions of its items in the client's call. Each
// answer must be OK and have passed the check of its method (check_documents.h). `one_log` says that the parts'
// sequences are those of one log (CollectionView::has_one_log); otherwise the merged answer has no sequence.

// Each result gets the position of its document or id in the client's call. The sequence is the highest of all answers.
// For a delete with a filter, adds up the numbers; there is more to delete if a part has more.
v1::UpsertResponse MergeUpserts(const std::vector<absl::StatusOr<v1::UpsertResponse>>& answers,
                                const std::vector<Positions>& positions, bool one_log);
v1::DeleteResponse MergeDeletes(const std::vector<absl::StatusOr<v1::DeleteResponse>>& answers,
                                const std::vector<Positions>& positions, bool one_log);

// Documents and missing ids are in the order of `request`; the sequence is the lowest of all answers. Moves the
// documents out of `answers`.
v1::GetResponse MergeGets(const v1::GetRequest& request, std::vector<absl::StatusOr<v1::GetResponse>> answers,
                          const std::vector<Positions>& positions, bool one_log);

}  // namespace maxsim::cluster
