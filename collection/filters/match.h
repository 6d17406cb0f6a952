// Checks whether a filter matches one document, such as one that was just written. evaluate.h handles whole shards.
#pragma once

#include <cstdint>
#include <vector>

#include "collection/field.h"
#include "collection/fields/field_reader.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// Returns whether a document matches. `filter` must be canonical for `fields` (CanonicalFilter), `values` has the
// document's value for each of `fields`, and `slot` is the slot of its id (SlotOf). Agrees with EvaluateFilter.
bool MatchesFilter(const Filter& filter, const std::vector<Field>& fields, const std::vector<FieldValue>& values,
                   int32_t slot);

}  // namespace maxsim::collection
