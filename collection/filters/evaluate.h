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

// Returns the ordinals of the documents whose ids have a slot in the range. An error ends the evaluation.
using FindInSlots = std::function<absl::StatusOr<OrdinalBitmap>(const SlotRange& slots)>;

// Returns the ordinals of the documents that match. `filter` is in its canonical form for the fields of the index
// (CanonicalFilter); INVALID_ARGUMENT if it names another field. Thread-safe. Memory is a few bitmaps for each level
// of the filter, and 4 bytes for each document that a comparison of a rare keyword or of a number matches.
//
// `check` (may be null) is called before each comparison; an error that it returns ends the evaluation.
//
// `in_slots` finds the documents of an in_slots, because an index has no ids. It is not called for all slots. It may be
// null if the filter has no other in_slots.
absl::StatusOr<OrdinalBitmap> EvaluateFilter(const Filter& filter, const ShardIndex& index,
                                             const StopCheck& check = nullptr, const FindInSlots& in_slots = nullptr);

}  // namespace maxsim::collection
