// The multiplying warps of the wide kernels, which are for token vectors of up to 256 bytes. They multiply query rows
// by the document tokens of a tile with wgmma. They keep the maximum of each query row over a document's tokens and, at
// the document's end, add up these maxima.
//
// A warp holds one query tile of 32 rows in registers: two sets of 16 rows, one in each of the two m64 operands of its
// warpgroup. It starts both sets' products of a tile. While they run, it adds up the maxima of the documents that ended
// in the previous tile, and waits for the next tile. (If many documents ended, it adds these up before it starts the
// products.) It takes the maxima of the first set while the products of the second set run, and those of the second set
// while the other warpgroup's products run.
//
// ptxas serialises products if one is in flight across a loop's back edge, or if sums are read after a branch while
// others are in flight. So one piece of code multiplies a tile from beginning to end. There is such a piece for every
// kind of tile: a tile in which no document ends, a tile with ends in one of its quarters, a tile with ends anywhere,
// and a tile after a tile with many ends.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/wgmma.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_wide/params.h"
#include "kernels/cuda/score/hopper_wide/ring.cuh"
#include "kernels/cuda/score/hopper_wide/set_maxima.cuh"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// kSteps steps of 32 bytes are multiplied; those past a row's end are zero.
template <ScalarType kType, int kSteps>
class Multiplier {
  static constexpr int kHalves = WideHalves(kSteps);
  static constexpr int kSets = 2;
  static constexpr int kSums = SetMaxima<kType>::kSums;
  static constexpr int kStepsOfHalf = kWideHalfBytes / kStepBytes;
  using Value = Sum<kType>;
  using Sums = Value[kSets][kSums];
  using Count = typename SetMaxima<kType>::Count;

 public:
  __device__ __forceinline__ Multiplier(const WideParams& params, WideRing<kHalves> ring, int warp, int lane)
      : p_(params),
        ring_(ring),
        warp_(warp),
        lane_(lane),
        mine_(TileHeader::kWarpgroup0 << warp / 4),
        maxima_(lane, ring.Scratch(warp), ring.Weights(warp)) {}

  // Starts to load the rows that the thread block's work begins with. Must be called before Run.
  __device__ __forceinline__ void Begin() { TakeRows(StartTileOf(blockIdx.x, p_)); }

  __device__ __forceinline__ void Run() {
    Sums sums;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[s][i] = 0;
    }
    Fetch();
    Know();
    while (true) {
      while (tile_.IsAmid(mine_)) MultiplyTile<0>(sums);
      const Tile tile = tile_;
      if (!tile.GoesOn(mine_)) {
        const bool is_mine = (tile.flags() & mine_) != 0;
        // The sums of the previous tile are put off until the next products run, except in three cases. The next tile
        // may be for other query rows (is_mine): TakeRows would replace the weights of these sums. There may be no
        // further tile. Or one tile of the other warpgroup was passed already (passed_): the previous tile keeps its
        // stage until it is summed, and the ring has room for only one passed tile.
        if (is_mine || passed_ || tile.flags() == 0) Settle(BeginToSettle<Count::kMany>());
        if (tile.flags() == 0) return;
        passed_ = !is_mine;
        if (!is_mine) {
          Release(tile.stage());
          Fetch();
          Know();
          continue;
        }
        TakeRows(TileHeader::LoadRowTile(ring_.Entry(tile.stage()), lane_));
      }
      if (!tile.Has(TileEnds::kInOneQuarter)) {
        if (tile.Has(TileEnds::kAfterMany)) {
          MultiplyTile<0b1111, Count::kMany>(sums);
        } else {
          MultiplyTile<0b1111>(sums);
        }
      } else if (tile.Has(2u << TileEnds::kQuarterAt)) {
        if (tile.Has(1u << TileEnds::kQuarterAt)) {
          MultiplyTile<0b1000>(sums);
        } else {
          MultiplyTile<0b0100>(sums);
        }
      } else {
        if (tile.Has(1u << TileEnds::kQuarterAt)) {
          MultiplyTile<0b0010>(sums);
        } else {
          MultiplyTile<0b0001>(sums);
        }
      }
    }
  }

 private:
  // A tile's stage and what to do with the tile, in one word. 0 means that there is no tile.
  struct Tile {
    static constexpr int kFlagsAt = 25, kStageAt = 28;
    static constexpr uint32_t kEnds = (1u << kFlagsAt) - 1;
    static_assert(TileEnds::kNothingOpen < 1u << kFlagsAt &&
                  TileEnds::kWideOctets == (1u << TileOctets(kWideTokens)) - 1);
    // While a warp multiplies a tile, the ring may hold four consecutive tiles for it: the warp's previous tile, whose
    // documents it has not summed yet; one tile of the other warpgroup (before a second one, Run sums these documents);
    // the tile that the warp multiplies; and the next tile, for which it waits. So the ring needs four stages.
    static_assert(WideRing<kHalves>::kStages >= 4 && WideRing<kHalves>::kStages <= 1 << (32 - kStageAt));

    uint32_t word = 0;

    __device__ __forceinline__ Tile() = default;
    __device__ __forceinline__ explicit Tile(uint32_t word) : word(word) {}
    __device__ __forceinline__ Tile(const TileHeader& header, int stage)
        : word(header.ends | header.flags << kFlagsAt | static_cast<uint32_t>(stage) << kStageAt) {}

    __device__ __forceinline__ uint32_t ends() const { return word & kEnds; }
    __device__ __forceinline__ uint32_t flags() const { return word >> kFlagsAt & 7; }
    __device__ __forceinline__ int stage() const { return static_cast<int>(word >> kStageAt); }

    __device__ __forceinline__ bool Has(uint32_t of_ends) const { return (word & of_ends) != 0; }

    // Returns whether the tile is for the warpgroup with the flag `warpgroup`, and for the same rows as the tile
    // before.
    __device__ __forceinline__ bool GoesOn(uint32_t warpgroup) const {
      return (flags() & (warpgroup | TileHeader::kNewRows)) == warpgroup;
    }
    // Returns whether GoesOn is true, no document ends in this tile, and at most kFewEnds documents end in the tile
    // before.
    __device__ __forceinline__ bool IsAmid(uint32_t warpgroup) const {
      return (word & (kEnds | (warpgroup | TileHeader::kNewRows) << kFlagsAt)) == warpgroup << kFlagsAt;
    }
  };

  // Waits for the next tile and reads its work. Do not add a loop: the only loop is that of the wait, and with
  // another one ptxas has serialised the products that are in flight.
  __device__ __forceinline__ void Fetch() {
    WaitBarrier(ring_.Whole(at_.stage), at_.parity);
    if (lane_ == 0) next_ = Tile(TileHeader::LoadFirst(ring_.Entry(at_.stage)), at_.stage);
    at_.Advance();
  }

  // Tells the whole warp about the tile that the first lane has fetched. The values come from one lane, so that the
  // compiler knows that they are the same in all lanes.
  __device__ __forceinline__ void Know() {
    tile_ = Tile(__shfl_sync(0xffffffffu, next_.word, 0));
    tokens_ = DescribeOperand(ring_.Tile(tile_.stage()));
  }

  // Releases the tile in `stage`.
  __device__ __forceinline__ void Release(int stage) const {
    __syncwarp();
    if (lane_ < kReadingLanes) Arrive(ring_.Empty(stage));
  }

  // The previous tile, with the document in it that is still to be summed, if there is one.
  struct Before {
    typename SetMaxima<kType>::Ended one;
    int stage = -1;  // -1: there is none
  };

  // Sums the documents that ended in the previous tile. With Count::kFew, if only one document ended, leaves it to
  // Settle.
  template <Count kEnded>
  __device__ __forceinline__ Before BeginToSettle() {
    const Tile tile{__shfl_sync(0xffffffffu, held_.word, 0)};
    held_ = Tile();
    Before before;
    if (tile.word == 0) return before;
    before.one = maxima_.template SumEnded<kEnded>(tile.ends(), ring_.Entry(tile.stage()));
    before.stage = tile.stage();
    __syncwarp();  // every lane has read what this tile's maxima will overwrite
    return before;
  }

  // Sums the single document that BeginToSettle has left, and releases its tile.
  __device__ __forceinline__ void Settle(const Before& before) const {
    maxima_.Finish(before.one);
    if (before.stage >= 0 && lane_ < kReadingLanes) Arrive(ring_.Empty(before.stage));
  }

  // Loads the warp's query tile (32 rows) of a row tile: operands, weights, and where its sums are written.
  __device__ __forceinline__ void TakeRows(int32_t row_tile) {
    const RowTile& tile = p_.row_tiles[row_tile];
    const int block = warp_ & (tile.IsHalf() ? kHalfTileQueryTiles - 1 : kWideMultipliers - 1);
    // The asm makes `lane` and `bytes` seem to differ among lanes: otherwise the compiler makes twice the instructions
    // of predicates. It also stops the compiler from computing values from the lane ahead of time only to keep them.
    int lane = lane_;
    int bytes = block < tile.num_query_tiles ? p_.row_bytes : 0;
    asm volatile("" : "+r"(lane), "+r"(bytes));
    const int64_t first = tile.first_row + block * kQueryTileTokens + lane / 4;
    const uint8_t* rows = p_.query_rows + first * p_.row_bytes + lane % 4 * 4;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int byte = k * kStepBytes + c * 16;
            a_[s][k][2 * c + h] = byte < bytes ? *reinterpret_cast<const uint32_t*>(rows + byte) : 0u;
          }
        }
        rows += int64_t{8} * p_.row_bytes;
      }
    }
    maxima_.TakeQueryTile(p_, tile, block);
  }

  __device__ __forceinline__ void StartProducts(Value (&sums)[kSums], int set, uint64_t tokens) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const uint64_t step =
          k / kStepsOfHalf * (kWideTokens * kWideHalfBytes / 16) + k % kStepsOfHalf * (kStepBytes / 16);
      MultiplyAdd<kType>(sums, a_[set][k], tokens + step, k > 0);
    }
    CommitGroup();
  }

  // Multiplies the tile, and sums the documents that ended in the previous tile. Documents may end only in those
  // quarters of the tile whose bits (0 to 3) are set in kQuarters; kEnded says how many ended in the previous tile. The
  // warp waits for the next tile while both sets' products run, and reads that tile's header before it takes the last
  // maxima. So only these maxima come between this tile's products and the next tile's. If many documents have ended,
  // the warp sums them before the products begin, because the products read shared memory as well.
  template <uint32_t kQuarters, Count kEnded = Count::kFew>
  __device__ __forceinline__ void MultiplyTile(Sums& sums) {
    const Tile tile = tile_;
    Before before;
    if constexpr (kEnded == Count::kMany) before = BeginToSettle<kEnded>();
    FenceOperands();
    StartProducts(sums[0], 0, tokens_);
    StartProducts(sums[1], 1, tokens_);
    if constexpr (kEnded != Count::kMany) before = BeginToSettle<kEnded>();
    Fetch();
    WaitGroups<1>();
    Pin<kWideTokens>(sums[0]);
    Take<kQuarters>(sums[0], 0, tile.ends());
    Settle(before);
    WaitGroups<0>();
    Pin<kWideTokens>(sums[1]);
    passed_ = false;
    if constexpr (kQuarters != 0) {
      held_ = tile;
    } else {
      Release(tile.stage());
    }
    Know();
    Take<kQuarters>(sums[1], 1, tile.ends());
  }

  template <uint32_t kQuarters>
  __device__ __forceinline__ void Take(const Value (&sums)[kSums], int set, uint32_t ends) {
    if constexpr (kQuarters != 0) {
      maxima_.template TakeEnding<kQuarters>(sums, set, ends);
    } else {
      maxima_.TakeAmid(sums, set);
    }
  }

  const WideParams& p_;
  const WideRing<kHalves> ring_;
  const int warp_;
  const int lane_;
  const uint32_t mine_;  // the flag of tiles for this warpgroup
  SetMaxima<kType> maxima_;
  uint32_t a_[kSets][kSteps][4];
  RingPlace<WideRing<kHalves>::kStages> at_;
  Tile next_;  // the tile that Fetch has read; only lane 0 has it
  Tile tile_;  // the current tile, in all lanes, and its operand
  uint64_t tokens_ = 0;
  Tile held_;            // the tile before, whose last documents have not been summed
  bool passed_ = false;  // the tile before was the other warpgroup's
};

}  // namespace maxsim::cuda::sm90
