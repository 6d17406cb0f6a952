// The parameters that all Hopper kernels have. Host and device code share these structs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

// Facts about the lists of all row tiles and about their documents. The Hopper kernels find their first candidates from
// them, so that their first copies wait for as few reads as possible (docs/internals/kernels-stream.md).
struct ListPattern {
  // Candidates of every row tile in this pass, if all have equally many and the ordinals of row tile t begin at
  // ordinals_begin + t * ordinals_stride (-1 and 0: all documents are candidates). 0 if row tiles differ.
  uint32_t regular;
  uint32_t unused;
  int64_t ordinals_begin;
  int64_t ordinals_stride;
  int64_t document_tokens;  // the length of every document; 0: only the offsets tell
};

struct HopperParams : ScoreParams {
  ListPattern pattern;
  // Counters of claimed work, zero between launches. The wide and deep kernels have [num_row_tiles + 2]
  // (hopper_common/work_queue.cuh), the stream kernels [2] (hopper_stream/share.cuh).
  uint32_t* claims;
};

// Says which row tiles of a wide call are half ones (RowTile::IsHalf).
enum HalfTiles : int32_t { kNoHalfTiles, kAllHalfTiles, kSomeHalfTiles };

// The row tile in which a thread block of a wide or deep kernel starts, and how many of its candidates are assigned to
// the thread block. Thread block b starts in row tile b % num_row_tiles. The host does the divisions: on the device
// each would be some twenty instructions to fetch from memory before a thread block's first copies.
struct StartTiles {
  uint32_t inverse;  // 2^32 / num_row_tiles, rounded up, with which Quotient divides; 0: there is one row tile
  int32_t blocks;    // thread blocks that start in a row tile ...
  int32_t extra;     // ... and one more in this many first row tiles
  // If ListPattern::regular is set: the candidates assigned to each thread block of a row tile in which `blocks`
  // thread blocks start ([0]), or one more ([1]).
  uint32_t assigned[2];
  uint32_t quarters;  // a thread block is assigned this many quarters of its even share

  // Returns how many of `candidates` are assigned to each of `readers` thread blocks: at least one, or 0 if there are
  // no thread blocks.
  constexpr uint32_t Assigned(uint32_t candidates, int32_t readers) const {
    if (readers == 0) return 0;
    const uint32_t each = candidates / 4 * quarters / static_cast<uint32_t>(readers);
    return each == 0 ? 1 : each;
  }

  // Thread blocks are assigned three quarters of their share. Only two quarters are assigned if many row tiles, but not
  // all, are half row tiles: those take half the time, and the thread blocks that start there should help the others.
  static constexpr StartTiles Of(int32_t grid, int32_t num_row_tiles, int32_t num_half_tiles, uint32_t regular) {
    StartTiles start{};
    start.quarters = num_half_tiles > num_row_tiles / 3 && num_half_tiles < num_row_tiles ? 2 : 3;
    const uint64_t tiles = static_cast<uint64_t>(num_row_tiles);
    start.inverse = tiles == 1 ? 0 : static_cast<uint32_t>(((uint64_t{1} << 32) + tiles - 1) / tiles);
    start.blocks = grid / num_row_tiles;
    start.extra = grid % num_row_tiles;
    start.assigned[0] = start.Assigned(regular, start.blocks);
    start.assigned[1] = start.Assigned(regular, start.blocks + 1);
    return start;
  }

  // Returns block / num_row_tiles. The product of `block` and num_row_tiles must be below 2^32.
  constexpr uint32_t Quotient(uint32_t block) const {
    return inverse == 0 ? block : static_cast<uint32_t>(uint64_t{block} * inverse >> 32);
  }
};

// A candidate whose document has been looked up.
struct PlacedCandidate {
  uint32_t position;  // in its list
  int32_t begin;      // first row in the token array, which has kWideMaxTokens at most
  int32_t tokens;
  float scale;  // of a quantised document
};

// The order in which the wide and deep kernels take the candidates of a list, longest documents first, and the work
// units that they take them in (candidates/order_candidates.cu). The part of a list begins at its row tiles'
// order_begin, and has num_candidates + kOrderEntries elements of each array.
inline constexpr int32_t kOrderEntries = 2;
struct CandidateOrder {
  PlacedCandidate* placed;  // null if candidates are taken in the order of the list
  // The number of work units; then the place in `placed` where each begins, counted from the list's first; then
  // num_candidates.
  uint32_t* units;
  int32_t early_octets;  // OrderPlan::early_octets
  int32_t unused;
};

// The parameters of the wide and deep kernels, whose thread blocks take their work from a WorkQueue.
struct WorkQueueParams : HopperParams {
  int32_t claim_candidates;  // candidates of a claim, 1 .. 32; if candidates are ordered, a claim is one work unit
  HalfTiles half_tiles;      // kNoHalfTiles for a deep kernel
  StartTiles start_tiles;
  CandidateOrder order;
};
static_assert(std::is_trivially_copyable_v<WorkQueueParams>);

// Four warps of the wide kernel fetch one line of the parameters each (fetch_params.cuh), so the parameters must fit in
// four lines.
static_assert(sizeof(WorkQueueParams) <= 4 * 64);

// Returns the row tile that a thread block of a wide or deep kernel starts in.
constexpr int32_t StartTileOf(uint32_t block, const WorkQueueParams& params) {
  const uint32_t tiles = static_cast<uint32_t>(params.num_row_tiles);
  return static_cast<int32_t>(block - params.start_tiles.Quotient(block) * tiles);
}

}  // namespace maxsim::cuda
