// Decides from which of several collections each slot's documents are taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/slots.h"

namespace maxsim::collection {

// A collection from which documents can be taken.
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

// Divides `wanted` among the sources. Prefers, in this order: a source with exactly the wanted slots, because it need
// not be rewritten; a choice with fewer bytes in total, because all shards of a chosen source are read; a choice whose
// lowest sequence is higher; fewer sources; sources that come earlier in the list. Does not combine a whole collection
// with other sources, because its documents have no positions of writes. Returns the shares in the order of their
// slots, without gaps, and at most one per source. Returns INVALID_ARGUMENT, naming the slots, if no source has them.
absl::StatusOr<std::vector<SlotShare>> ChooseSources(absl::Span<const SlotSource> sources, const SlotRange& wanted);

}  // namespace maxsim::collection
