// Where a document lies in a collection: in which part, and at which ordinal of the part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace maxsim::store {

struct Location {
  uint32_t part = 0;     // shards first, then segments
  uint32_t ordinal = 0;  // in the part
};

// Returns the index of the last part that begins at or before `ordinal`. `first_ordinals` must not be empty, must begin
// with 0, and must ascend. An empty part has the same first ordinal as the part after it; the later part is returned.
//
// The loop has no branches, because the processor could not predict them for ordinals in random order.
inline size_t PartOf(absl::Span<const uint64_t> first_ordinals, uint64_t ordinal) {
  const uint64_t* first = first_ordinals.data();
  for (size_t count = first_ordinals.size(); count > 1; count -= count / 2) {
    first += static_cast<size_t>(first[count / 2] <= ordinal) * (count / 2);
  }
  return static_cast<size_t>(first - first_ordinals.data());
}

}  // namespace maxsim::store
