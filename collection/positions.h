// Positions: the place of a partition's document in the order of the whole collection, by which ranks that tie are
// ordered in every partition and between them (docs/internals/cluster.md).
#pragma once

#include <cstdint>

#include "collection/manifest.h"

namespace maxsim::collection {

// A document that was in the collection when it was split keeps its ordinal there as its position. Those are all below
// this number, as an index of ids holds fewer documents.
inline constexpr int64_t kFirstWrittenPosition = int64_t{1} << 40;

// Returns the position of a document that was written to a live partition: after all documents from before the split,
// in the order of the writes. Compaction and replay of the log keep it.
inline constexpr int64_t PositionOfWrite(uint64_t sequence) {
  return kFirstWrittenPosition + static_cast<int64_t>(sequence);
}

inline constexpr int64_t kMaxPosition = kFirstWrittenPosition + kMaxLogSequence;

}  // namespace maxsim::collection
