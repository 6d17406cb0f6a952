// Positions: the place of a partition's document in the order of the whole collection, by which ranks that tie are
// ordered in every partition and between them (docs/internals/cluster.md).
#pragma once

#include <cstdint>

#include "collection/manifest.h"

namespace maxsim::collection {

// A document that was in the collection when that was cut has its ordinal in it as its position. All of those are below
// this, as an index of ids holds fewer documents.
inline constexpr int64_t kFirstWrittenPosition = int64_t{1} << 40;

// Returns the position of a document that a write to a live partition brought: behind all documents that were cut, in
// the order of the writes. A compaction keeps it, as does the replay of the log.
inline constexpr int64_t PositionOfWrite(uint64_t sequence) {
  return kFirstWrittenPosition + static_cast<int64_t>(sequence);
}

inline constexpr int64_t kMaxPosition = kFirstWrittenPosition + kMaxLogSequence;

}  // namespace maxsim::collection
