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

// Checks one group's page against its request: generation and sequence; ids of the collection's type, ascending and
// after request.after; documents in the requested form, no more than the limit, and at least one if the answer says
// that there are more.
std::optional<AnswerFault> CheckScrollAnswer(const v1::ScrollRequest& request, bool has_int_ids,
                                             const StoredShape& shape, const v1::ScrollResponse& answer);

// Merges the groups' pages by id. `answers` has one answer for each part of the collection, that is, one page per
// group. Each must be OK and have passed CheckScrollAnswer. If a group has documents after the end of its page, the
// merged page ends where that group's page ends, because the group's next ids are unknown. The merged page also ends
// before it would exceed the limit or `max_bytes`, but it has at least one document if a group has one. MergeSnapshot
// sets the merged page's sequence and generation.
v1::ScrollResponse MergeScrolls(const v1::ScrollRequest& request, const CollectionView& collection,
                                std::vector<absl::StatusOr<v1::ScrollResponse>> answers, uint64_t max_bytes);

}  // namespace maxsim::cluster
