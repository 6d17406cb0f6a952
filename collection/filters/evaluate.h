// Finds the documents of a shard that a filter matches.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/filters/field_index.h"
#include "collection/filters/filter.h"
#include "collection/filters/ordinal_bitmap.h"
#include "collection/slots.h"

namespace maxsim::collection {

// Returns the ordinals of the shard's documents whose ids have a slot in the range. An error ends the evaluation.
using FindInSlots = std::function<absl::StatusOr<OrdinalBitmap>(const SlotRange& slots)>;

// Returns the ordinals of the shard's documents that match. `filter` must be canonical for the fields of the index
// (CanonicalFilter); returns INVALID_ARGUMENT if it names another field. Thread-safe. Takes memory for a few bitmaps
// per level of the filter.
//
// `check` (may be null) is called before each comparison; an error that it returns ends the evaluation.
//
// `in_slots` finds the documents of an in_slots node, because the index has no ids. May be null if every in_slots in
// the filter is Filter::Everything.
absl::StatusOr<OrdinalBitmap> EvaluateFilter(const Filter& filter, const ShardIndex& index,
                                             const StopCheck& check = nullptr, const FindInSlots& in_slots = nullptr);

}  // namespace maxsim::collection
