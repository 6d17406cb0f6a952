// Positions of documents in a partition: their places in the order of the whole collection. Documents of equal score
// are ordered by position, in each partition and when the results of partitions are merged (docs/internals/cluster.md).
#pragma once

#include <cstdint>

#include "collection/manifest.h"

namespace maxsim::collection {

// A document that was in the collection before it was split has its ordinal in that collection as its position, which
// is below this number. Documents that are written later have positions from this number on.
inline constexpr int64_t kFirstWrittenPosition = int64_t{1} << 40;

// Returns the position of a document that was written to a live partition by the write with this sequence. Compaction
// and a replay of the log do not change it.
inline constexpr int64_t PositionOfWrite(uint64_t sequence) {
  return kFirstWrittenPosition + static_cast<int64_t>(sequence);
}

inline constexpr int64_t kMaxPosition = kFirstWrittenPosition + kMaxLogSequence;

}  // namespace maxsim::collection
