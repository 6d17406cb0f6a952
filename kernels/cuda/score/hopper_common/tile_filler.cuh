// Fills token tiles with documents: the part of the loading warp that does not depend on the ring (pipeline in shared
// memory).
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/params.h"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/order.h"

namespace maxsim::cuda::sm90 {

// A document that began in a warpgroup's previous tile and did not end there. The members describe the document's
// remaining rows, with which the next tile begins. Every lane has the same values.
struct OpenDocument {
  int32_t row = 0;
  int32_t tokens = 0;  // 0: there is none
  uint32_t position = 0;
  float scale = 1;
};

// One warp uses it. At most kMaxEnds documents end in a tile; a tile in which kMaxEnds documents end may not be full.
// With kLasts, headers also say where the last tokens of documents are (TileEnds::lasts); otherwise only the notes of
// pieces say it.
template <bool kScales, int kTokens, int kMaxEnds, bool kLasts>
class TileFiller {
  static constexpr int kOctets = TileOctets(kTokens);
  static constexpr int kWords = kOctets / kOctetsOfWord;
  static_assert(kOctets % kOctetsOfWord == 0);
  // With ordered candidates, claiming and looking up the next work unit takes about as long as multiplying this many
  // tokens.
  static constexpr int32_t kNearTokens = 4 * kTokens;

 public:
  // The thread block's work begins with row_tile().
  __device__ __forceinline__ TileFiller(const WorkQueueParams& params, const WorkUnitSlot& slot, int lane)
      : lane_(lane),
        reader_(slot, lane),
        row_tile_(StartTileOf(blockIdx.x, params)),
        early_octets_(params.order.placed == nullptr ? kAlwaysEarly : params.order.early_octets) {}

  __device__ __forceinline__ int32_t row_tile() const { return row_tile_; }

  // Waits for the first work unit. Must be called before IsInHalfTile.
  __device__ __forceinline__ void Begin() { Take(); }

  // Returns whether the row tile that Begin or NextRowTile has reached is a half tile.
  __device__ __forceinline__ bool IsInHalfTile() const { return unit_.in_half; }

  // Fills a tile with the remaining rows of the open document, and then with other documents of the row tile. If there
  // are none, the tile has no octets (groups of eight tokens). Describes the tile's pieces at `entry` and notes them at
  // `notes`. Returns the header, but does not store it; the caller sets the flags.
  __device__ __forceinline__ TileHeader Fill(OpenDocument& open, uint32_t entry, uint32_t notes) {
    TileHeader header;
    header.row_tile = row_tile_;
    if (open.tokens > 0) Continue(open, entry, notes, header);
    while (header.octets < kOctets && EndsLeft(header) > 0) {
      if (taken_ == unit_.count) Take();
      if (unit_.count == 0 || unit_.row_tile != row_tile_) break;
      AddDocuments(open, entry, notes, header);
    }
    __syncwarp();  // every lane has noted its pieces
    return header;
  }

  // Goes on to another row tile. Call it only after Fill has returned an empty tile for every warpgroup. Returns false
  // if there is no more work.
  __device__ __forceinline__ bool NextRowTile() {
    if (unit_.count == 0) return false;
    row_tile_ = unit_.row_tile;
    return true;
  }

  // Releases the work unit's slot, so that the scheduler warp can claim the next work unit, if all documents of this
  // one are in tiles, except for at most kNearTokens tokens of the last. Does nothing if Take has released the slot.
  // Must be called after every Fill, with the same `open`.
  __device__ __forceinline__ void LookAhead(const OpenDocument& open) {
    if (is_held_ && taken_ == unit_.count && open.tokens <= kNearTokens) LetGo();
  }

 private:
  // The value of early_octets_ if candidates are not ordered.
  static constexpr int32_t kAlwaysEarly = kMaxEarlyOctets + 1;

  // Returns how many documents may still end in the tile, or 1 if only the number of octets limits the ends.
  static __device__ __forceinline__ int EndsLeft(const TileHeader& header) {
    return kMaxEnds < kOctets ? kMaxEnds - __popc(header.ends) : 1;
  }

  // Returns the place of a document's last token in its octet.
  static __device__ __forceinline__ uint32_t LastOf(int32_t tokens) {
    return static_cast<uint32_t>(tokens - 1) % kOctetTokens;
  }

  __device__ __forceinline__ void LetGo() {
    reader_.LetGo();
    is_held_ = false;
  }

  // Takes the next work unit (up to 32 candidates), if there is one, and releases its slot, so that the scheduler warp
  // can claim another. With ordered candidates, it releases the slot at once only while early_octets_ allows one more
  // work unit of this size. Otherwise LookAhead releases the slot near the unit's end.
  __device__ __forceinline__ void Take() {
    if (unit_.count == 0) return;
    if (is_held_) LetGo();
    unit_ = reader_.Read();
    taken_ = 0;
    passed_ = 0;
    stop_ = OctetsIn(unit_.tokens);
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t before = __shfl_up_sync(0xffffffffu, stop_, distance);
      if (lane_ >= distance) stop_ += before;
    }
    is_held_ = true;
    if (early_octets_ < kAlwaysEarly) {
      const int32_t octets = __shfl_sync(0xffffffffu, stop_, 31);
      early_octets_ -= octets;
      if (early_octets_ < octets) return;
    }
    LetGo();
  }

  __device__ __forceinline__ void Continue(OpenDocument& open, uint32_t entry, uint32_t notes, TileHeader& header) {
    const int32_t left = OctetsIn(open.tokens);
    header.octets = min(left, kOctets);
    header.pieces = 1;
    const uint32_t last = LastOf(open.tokens);
    if (lane_ == 0) {
      TilePiece{open.position, open.scale}.Store(TilePiece::Address(entry, 0));
      PieceNote{open.row, 0, header.octets, last}.Store(notes, 0);
    }
    if (left > kOctets) {
      open.row += kTokens;
      open.tokens -= kTokens;
      return;
    }
    header.ends = 1u << (left - 1);
    if constexpr (kLasts) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        header.lasts[w] = (left - 1) / kOctetsOfWord == w ? last << (left - 1) % kOctetsOfWord * 3 : 0;
      }
    }
    open.tokens = 0;
  }

  // Adds documents of the work unit, as many as the tile has room for.
  __device__ __forceinline__ void AddDocuments(OpenDocument& open, uint32_t entry, uint32_t notes, TileHeader& header) {
    const int32_t stop = header.octets + stop_ - passed_;  // of the lane's document, counted from the tile's begin
    const int32_t start = stop - OctetsIn(unit_.tokens);
    const bool allowed = kMaxEnds >= kOctets || lane_ - taken_ < EndsLeft(header);
    const bool here = lane_ >= taken_ && lane_ < unit_.count && start < kOctets && allowed;
    const uint32_t lanes = __ballot_sync(0xffffffffu, here);
    if (here) {
      const int piece = header.pieces + __popc(lanes & ((1u << lane_) - 1));
      TilePiece{unit_.position, unit_.scale}.Store(TilePiece::Address(entry, piece));
      PieceNote{unit_.begin, start, min(stop, kOctets) - start, LastOf(unit_.tokens)}.Store(notes, piece);
    }
    const bool ends = here && stop <= kOctets;
    header.ends |= __reduce_or_sync(0xffffffffu, ends ? 1u << (stop - 1) : 0u);
    if constexpr (kLasts) {
      const uint32_t last = LastOf(unit_.tokens) << (stop - 1) % kOctetsOfWord * 3;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        header.lasts[w] |= __reduce_or_sync(0xffffffffu, ends && (stop - 1) / kOctetsOfWord == w ? last : 0u);
      }
    }
    const int count = __popc(lanes);
    header.pieces += count;
    taken_ += count;
    // The last document may end past the tile's end. Then its remaining rows become the open document, with which the
    // next tile begins.
    const int32_t filled = __shfl_sync(0xffffffffu, stop, taken_ - 1);
    passed_ = __shfl_sync(0xffffffffu, stop_, taken_ - 1);
    header.octets = min(filled, kOctets);
    if (filled <= kOctets) return;
    const int32_t copied = (kOctets - start) * kOctetTokens;
    open.row = __shfl_sync(0xffffffffu, unit_.begin + copied, taken_ - 1);
    open.tokens = __shfl_sync(0xffffffffu, unit_.tokens - copied, taken_ - 1);
    open.position = __shfl_sync(0xffffffffu, unit_.position, taken_ - 1);
    if constexpr (kScales) open.scale = __shfl_sync(0xffffffffu, unit_.scale, taken_ - 1);
  }

  const int lane_;
  WorkUnitSlot::Reader reader_;
  int32_t row_tile_;
  int32_t early_octets_;  // ordered candidates: octets that the block may still claim ahead of others
  WorkUnitSlot::Candidates unit_{.count = -1};  // at first a unit whose candidates are all taken
  bool is_held_ = false;                        // the work unit has not been released
  int32_t taken_ = -1;                          // documents of the work unit that are in tiles
  int32_t passed_ = 0;                          // octets of the documents that are in tiles
  int32_t stop_ = 0;                            // octets of the work unit up to the end of the lane's document
};

}  // namespace maxsim::cuda::sm90
