// Running maxima of a warp's block of 32 query rows over token tiles of the wide kernels: one set of 16 rows after the
// other.
//
// Of set s, lane l has rows 16 s + l / 4 and 8 further, of tokens 8 j + 2 (l % 4) and the next: [4 j + 0, 1] and
// [4 j + 2, 3] for group j, as wgmma leaves them.
//
// There are no branches but for whole tiles: a taken one costs some 50 cycles, and each of the two warps of a scheduler
// has to be done with a tile in about 1,000 (INT8 at d = 128). So documents are made of groups: tokens behind a
// document's end repeat its last one (tail_repeater.cuh). And what a lane has of a document that ends goes to shared
// memory by a predicate, where the lanes that sum it find it.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/block_sums.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/token_tile.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/plan.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType>
class SetMaxima {
  static constexpr int kGroups = TileGroups(kWideTokens);

 public:
  using Value = Sum<kType>;
  static constexpr int kSums = kWideTokens / 2;  // of a set, a lane

  // `scratch`: shared memory of the warp's own, kWideMostEnds times kWideEndBytes.
  __device__ __forceinline__ SetMaxima(int lane, uint32_t scratch) : lane_(lane), scratch_(scratch), sums_(lane) {
    Clear();
  }

  // Takes weights and output of a block, which the row tile may lack, and begins anew.
  __device__ __forceinline__ void TakeBlock(const ScoreParams& params, const RowTile& tile, int block) {
    Clear();
    sums_.TakeBlock(params, tile, block);
  }

  // Takes a set's maxima of a tile amid a document.
  __device__ __forceinline__ void TakeAmid(const Value (&sums)[kSums], int set) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      Value of_half[2] = {running_[set][h], Larger(sums[2 * h], sums[2 * h + 1])};
#pragma unroll
      for (int j = 1; j < kGroups; ++j) {
        of_half[j % 2] = Larger(of_half[j % 2], Larger(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]));
      }
      running_[set][h] = Larger(of_half[0], of_half[1]);
    }
    if (set == 0) TakeNow(running_[set][0], running_[set][1]);
  }

  // Takes a set's maxima of a tile with documents that end in the groups of `ends`, which are left to be summed.
  __device__ __forceinline__ void TakeEnding(const Value (&sums)[kSums], int set, uint32_t ends) {
    // As a number that differs among lanes: predicates of what is the whole warp's take an instruction more.
    asm("or.b32 %0, %0, %1;" : "+r"(ends) : "r"(lane_ << 26));
    uint32_t place = scratch_ + Word(lane_ / 4, lane_ % 4, set, 0) * 4;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        running_[set][h] = Larger(running_[set][h], Larger(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]));
      }
      End(ends & 1u << j, place, running_[set][0], running_[set][1]);
    }
    if ((ends & TileEnds::kNothingOpen) != 0) running_[set][0] = running_[set][1] = LowestSum<Value>();
  }

  // Sums the documents that ended in a tile, of which both sets have been taken. `entry` describes it.
  __device__ __forceinline__ void SumEnded(uint32_t ends, uint32_t entry) const {
    __syncwarp();  // every lane has put down its maxima
    const int count = __popc(ends & ~TileEnds::kNothingOpen);
    if (count == 0) return;
    if (count == 1) {
      sums_.SumOne(Term(0), TilePiece::Address(entry, 0));
      return;
    }
    SumBatch<0>(count, entry);
    if (count > kBatch) SumBatch<kBatch>(count, entry);
  }

 private:
  static constexpr int kBatch = BlockSums<kType>::kMost;
  static_assert(kWideMostEnds == 2 * kBatch);

  // Where the lane 4 g + q puts what it has of row 8 h + g of a set, among a document's 128 words. The 32 words of one
  // q lie in different banks, and so do those that half a warp writes.
  static __device__ __forceinline__ uint32_t Word(int g, int q, int set, int h) {
    return static_cast<uint32_t>(q * 32 + ((set * 16 + g * 2 + h) ^ q * 8));
  }

  // Has the maxima taken before what comes next, which is a wait for the other set's products: ptxas cannot move them
  // behind it, as a store needs them. It never happens: no lane is beyond 31.
  __device__ __forceinline__ void TakeNow(float first, float second) const {
    asm volatile(
        "{\n.reg .pred never;\nsetp.gt.s32 never, %0, 31;\n@never st.shared.v2.f32 [%1], {%2, %3};\n}\n" ::"r"(lane_),
        "r"(scratch_), "f"(first), "f"(second)
        : "memory");
  }
  __device__ __forceinline__ void TakeNow(int32_t first, int32_t second) const {
    asm volatile(
        "{\n.reg .pred never;\nsetp.gt.s32 never, %0, 31;\n@never st.shared.v2.s32 [%1], {%2, %3};\n}\n" ::"r"(lane_),
        "r"(scratch_), "r"(first), "r"(second)
        : "memory");
  }

  // Where a document ends: puts its two maxima at `place`, to begin with the next one.
  static __device__ __forceinline__ void End(uint32_t ends, uint32_t& place, float& first, float& second) {
    asm volatile(
        "{\n.reg .pred end;\nsetp.ne.u32 end, %3, 0;\n@end st.shared.v2.f32 [%0], {%1, %2};\n"
        "@end add.u32 %0, %0, %4;\n@end mov.f32 %1, 0fff800000;\n@end mov.f32 %2, 0fff800000;\n}\n"
        : "+r"(place), "+f"(first), "+f"(second)
        : "r"(ends), "n"(kWideEndBytes)
        : "memory");
  }
  static __device__ __forceinline__ void End(uint32_t ends, uint32_t& place, int32_t& first, int32_t& second) {
    asm volatile(
        "{\n.reg .pred end;\nsetp.ne.u32 end, %3, 0;\n@end st.shared.v2.s32 [%0], {%1, %2};\n"
        "@end add.u32 %0, %0, %4;\n@end mov.s32 %1, 0x80000000;\n@end mov.s32 %2, 0x80000000;\n}\n"
        : "+r"(place), "+r"(first), "+r"(second)
        : "r"(ends), "n"(kWideEndBytes)
        : "memory");
  }

  // What the lane's row adds to the sum of a document that ended.
  __device__ __forceinline__ float Term(int document) const {
    const int g = lane_ / 4, set = lane_ % 2, h = lane_ / 2 % 2;
    Value of[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) Load(scratch_ + document * kWideEndBytes + Word(g, q, set, h) * 4, of[q]);
    return sums_.Term(Larger(Larger(of[0], of[1]), Larger(of[2], of[3])));
  }

  // Sums documents kFirst .. kFirst + kBatch of `count`.
  template <int kFirst>
  __device__ __forceinline__ void SumBatch(int count, uint32_t entry) const {
    float terms[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) terms[i] = Term(kFirst + i);
    sums_.Sum(terms, 0, min(count - kFirst, kBatch), TilePiece::Address(entry, kFirst));
  }

  static __device__ __forceinline__ void Load(uint32_t address, float& value) { value = LoadSharedFloat(address); }
  static __device__ __forceinline__ void Load(uint32_t address, int32_t& value) {
    value = static_cast<int32_t>(LoadShared(address));
  }

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int s = 0; s < 2; ++s) running_[s][0] = running_[s][1] = LowestSum<Value>();
  }

  const int lane_;
  const uint32_t scratch_;  // [kWideMostEnds] documents that have ended
  Value running_[2][2];     // maxima so far: of a set, rows g and g + 8
  BlockSums<kType> sums_;
};

}  // namespace maxsim::cuda::sm90
