// The position of a partition's document: its place in the order of the whole collection. Documents of equal score are
// ordered by position, in each partition and when the results of partitions are merged (docs/internals/cluster.md).
#pragma once

#include <cstdint>

#include "collection/manifest.h"

namespace maxsim::collection {

// If a document was in the collection before it was split, its position is its ordinal in that collection. All of these
// positions are below this number, because an id index holds fewer documents.
inline constexpr int64_t kFirstWrittenPosition = int64_t{1} << 40;

// Returns the position of a document that was written to a live partition. It is after all documents from before the
// split, in the order of the writes. Compaction and a replay of the log do not change it.
inline constexpr int64_t PositionOfWrite(uint64_t sequence) {
  return kFirstWrittenPosition + static_cast<int64_t>(sequence);
}

inline constexpr int64_t kMaxPosition = kFirstWrittenPosition + kMaxLogSequence;

}  // namespace maxsim::collection
