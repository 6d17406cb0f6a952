// Checks the groups' answers to Documents.Scroll, and merges them into one page. Pure: no network, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/parts/check_documents.h"

namespace maxsim::cluster {

// Checks one group's page against its request: the generation and the sequence, that documents have ids of the
// collection's type after request.after, ascending, that they are no more than the limit, have what was asked for, and
// are at least one if the answer says that there are more.
std::optional<AnswerFault> CheckScrollAnswer(const v1::ScrollRequest& request, bool has_int_ids,
                                             const StoredShape& shape, const v1::ScrollResponse& answer);

// Merges one answer for each part of the collection, each OK and accepted by its check, by id. A group whose page ends
// early may have documents after its last one that it did not send, so that the merged page ends there as well. It also
// ends where it would have more documents than the limit, or more than `max_bytes`, but has one document in any case if
// a group has one. Sequence and generation are those of MergeSnapshot.
v1::ScrollResponse MergeScrolls(const v1::ScrollRequest& request, const CollectionView& collection,
                                std::vector<absl::StatusOr<v1::ScrollResponse>> answers, uint64_t max_bytes);

}  // namespace maxsim::cluster
