// What a request with group_by asks for, and how results are ranked in groups of one value of a field.
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

// What results are grouped by.
struct Grouping {
  size_t field_idx = 0;   // in the collection's list of fields
  std::string field;      // its name
  size_t num_groups = 0;  // of the best ones, which must be known: offset + top_k
  size_t group_size = 0;  // documents of a group at most
  // Canonical filters, which all must match: those of the request, and that a document has a value of the field.
  std::vector<collection::Filter> filters;
  v1::RefinementOptions refinement;  // as the request has it
};

// Returns how many documents of a group a request asks for; 1 without group_by.
int64_t GroupSizeOf(const v1::RerankRequest& request);

// Checks what needs no collection, of a request that has passed CheckPage. INVALID_ARGUMENT: group_size or group_values
// without group_by; more than limits.max_top_k documents, (offset + top_k) x group_size, or values.
absl::Status CheckGrouping(const v1::RerankRequest& request, const RequestLimits& limits);

// Returns what the request asks of a collection with these fields. `filter` (may be null) is the request's in its
// canonical form. INVALID_ARGUMENT for a field that is not declared, or is no keyword.
absl::StatusOr<Grouping> GroupingOf(const v1::RerankRequest& request, const collection::Filter* filter,
                                    const std::vector<collection::Field>& fields, const RequestLimits& limits);

// Returns a canonical filter that all of `filters`, which are canonical, match. Its size has no bound (CheckFilter).
collection::Filter AllOf(std::vector<collection::Filter> filters);

}  // namespace maxsim::service
