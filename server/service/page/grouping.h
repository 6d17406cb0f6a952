// Reads group_by, group_size and group_values of a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/field.h"
#include "collection/filters/filter.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/limits.h"

namespace maxsim::service {

// How to group the results of a request.
struct Grouping {
  size_t field_idx = 0;   // in the collection's list of fields
  std::string field;      // its name
  size_t num_groups = 0;  // number of best groups that must be known: offset + top_k
  size_t group_size = 0;  // maximum number of documents per group
  // Candidates must match all of these canonical filters: the request's filter, if it has one, and a filter that
  // requires a value of the field (if the request has group_values, one of these).
  std::vector<collection::Filter> filters;
  v1::RefinementOptions refinement;  // as the request has it
};

// Returns how many documents of a group a request asks for; 1 without group_by.
int64_t GroupSizeOf(const v1::RerankRequest& request);

// Checks the grouping as far as possible without the collection. The request must have passed CheckPage. Returns
// INVALID_ARGUMENT for group_size or group_values without group_by, for more than limits.max_top_k group_values, and if
// (offset + top_k) x group_size exceeds limits.max_top_k.
absl::Status CheckGrouping(const v1::RerankRequest& request, const RequestLimits& limits);

// Returns the grouping that the request asks for. `fields` are the collection's. `filter` (may be null) is the
// request's filter in canonical form. Returns INVALID_ARGUMENT if the field is not declared, or is not a keyword field.
absl::StatusOr<Grouping> GroupingOf(const v1::RerankRequest& request, const collection::Filter* filter,
                                    const std::vector<collection::Field>& fields, const RequestLimits& limits);

// Returns one canonical filter that matches if all `filters` do. It may be larger than CheckFilter would allow.
collection::Filter AllOf(std::vector<collection::Filter> filters);

}  // namespace maxsim::service
