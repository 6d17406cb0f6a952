// Fills token tiles with documents: the part of the loading warp that does not depend on the ring.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/params.h"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/order.h"

namespace maxsim::cuda::sm90 {

// A document that began in a warpgroup's last tile and did not end there: the rows with which the next tile continues.
// Every lane has the same values.
struct OpenDocument {
  int32_t row = 0;
  int32_t tokens = 0;  // 0: there is none
  uint32_t position = 0;
  float scale = 1;
};

// One warp uses it. At most kMaxEnds documents end in a tile, which may not be full then. With kLasts headers say
// where documents' last tokens are (TileEnds::lasts), and not the notes of their pieces alone.
template <bool kScales, int kTokens, int kMaxEnds, bool kLasts>
class TileFiller {
  static constexpr int kOctets = TileOctets(kTokens);
  static constexpr int kWords = kOctets / kOctetsOfWord;
  static_assert(kOctets % kOctetsOfWord == 0);
  // Claiming and looking up the next work unit of an order takes as long as this many tokens of an open document.
  static constexpr int32_t kNearTokens = 4 * kTokens;

 public:
  // The thread block's work begins with row_tile().
  __device__ __forceinline__ TileFiller(const WorkQueueParams& params, const WorkUnitSlot& slot, int lane)
      : lane_(lane),
        reader_(slot, lane),
        row_tile_(StartTileOf(blockIdx.x, params)),
        early_octets_(params.order.placed == nullptr ? kAlwaysEarly : params.order.early_octets) {}

  __device__ __forceinline__ int32_t row_tile() const { return row_tile_; }

  // Waits for the first work unit, so that IsInHalfTile can be asked.
  __device__ __forceinline__ void Begin() { Take(); }

  // Returns whether the row tile that Begin or NextRowTile has gone on to is a half one.
  __device__ __forceinline__ bool IsInHalfTile() const { return unit_.in_half; }

  // Fills a tile with what the open document has left and then with other documents of the row tile; the tile has no
  // octets when there are none. Its pieces are described at `entry` and noted at `notes`; the header, whose flags are
  // the caller's, is not stored.
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

  // Goes on to another row tile, once every warpgroup's tile is empty; false when there is no more work.
  __device__ __forceinline__ bool NextRowTile() {
    if (unit_.count == 0) return false;
    row_tile_ = unit_.row_tile;
    return true;
  }

  // Lets the next work unit be claimed, if it is time. To be called after every Fill, with the same `open`.
  __device__ __forceinline__ void LookAhead(const OpenDocument& open) {
    if (is_held_ && taken_ == unit_.count && open.tokens <= kNearTokens) LetGo();
  }

 private:
  // The value of early_octets_ where candidates are not ordered.
  static constexpr int32_t kAlwaysEarly = kMaxEarlyOctets + 1;

  // Returns how many documents may still end in the tile; 1 where there is no bound but the octets.
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

  // Takes the next work unit, unless there is none, and lets its slot go, so that the next one can be claimed. Where
  // candidates are ordered it does so only within early_octets_; beyond, LookAhead does it near the unit's end.
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
    // The last document may go on in the next tile.
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
  int32_t early_octets_;  // of tokens: what the block may have ahead of others, where candidates are ordered
  WorkUnitSlot::Candidates unit_{.count = -1};  // at first one that has been used, as taken_ says
  bool is_held_ = false;                        // the work unit has not been let go
  int32_t taken_ = -1;                          // documents of the work unit that tiles have
  int32_t passed_ = 0;                          // octets of those
  int32_t stop_ = 0;                            // octets of the work unit up to the end of the lane's document
};

}  // namespace maxsim::cuda::sm90
