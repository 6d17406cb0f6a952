// Says whether a filter matches one document, for writes. evaluate.h finds the documents of a shard.
#pragma once

#include <cstdint>
#include <vector>

#include "collection/field.h"
#include "collection/fields/field_reader.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// `filter` is in its canonical form for `fields` (CanonicalFilter), `values` are the document's values of these fields,
// in their order, and `slot` is the slot of its id (SlotOf). Matches the documents that EvaluateFilter finds.
bool MatchesFilter(const Filter& filter, const std::vector<Field>& fields, const std::vector<FieldValue>& values,
                   int32_t slot);

}  // namespace maxsim::collection
