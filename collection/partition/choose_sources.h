// Decides from which of several collections each slot is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/slots.h"

namespace maxsim::collection {

// A collection that documents can be taken from.
struct SlotSource {
  SlotRange slots;
  uint64_t sequence = 0;  // of its log
  int64_t num_bytes = 0;  // of its shards
};

// The slots that are taken from one source.
struct SlotShare {
  size_t source = 0;
  SlotRange slots;

  friend bool operator==(const SlotShare&, const SlotShare&) = default;
};

// Divides `wanted` among the sources. Prefers, in this order: a source that has exactly the wanted slots, because it
// need not be rewritten; sources that have fewer bytes together, because all shards of a chosen source are read; a
// higher lowest sequence; fewer sources; sources that come earlier in the list. A source with all slots is not combined
// with others, because its documents do not have the positions that those of a partition have. Returns the shares in
// the order of their slots; they adjoin, and no source has two. INVALID_ARGUMENT, naming slots, if no source has them.
absl::StatusOr<std::vector<SlotShare>> ChooseSources(absl::Span<const SlotSource> sources, const SlotRange& wanted);

}  // namespace maxsim::collection
