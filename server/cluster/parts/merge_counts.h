// Checks the groups' answers to calls that count documents, and adds them up. Pure: no network, no clock.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/view.h"

namespace maxsim::cluster {

// Check one group's answer against its part of the request: the generation and the sequence; and for facets that every
// value has a count, that the values are in order, and that their number matches the number that the answer states, up
// to the limit.
std::optional<AnswerFault> CheckCountAnswer(const v1::CountRequest& request, const v1::CountResponse& answer);
std::optional<AnswerFault> CheckCountAnswer(const v1::FacetsRequest& request, const v1::FacetsResponse& answer);

// The functions below take one answer for each part of the collection. Each must be OK and have passed
// CheckCountAnswer. MergeSnapshot sets the merged answer's sequence and generation.

v1::CountResponse MergeCounts(const CollectionView& collection,
                              const std::vector<absl::StatusOr<v1::CountResponse>>& answers);

// Adds up the counts of each value, and returns as many values as `request` asks for. Returns INVALID_ARGUMENT if a
// group has more values than it sent, because the sums are then unknown. A single group's answer is returned as it is.
absl::StatusOr<v1::FacetsResponse> MergeFacets(const v1::FacetsRequest& request, const CollectionView& collection,
                                               std::vector<absl::StatusOr<v1::FacetsResponse>> answers);

}  // namespace maxsim::cluster
