// Running maxima of a warp's query tile of 32 rows over token tiles of the wide kernels: one set of 16 rows after the
// other.
//
// wgmma leaves the sums of set s in these places. Lane l has rows r = 16 s + l / 4 and r + 8, and of octet j tokens t =
// 8 j + 2 (l % 4) and t + 1. Sums 4 j and 4 j + 1 of the set belong to row r, and sums 4 j + 2 and 4 j + 3 to row r +
// 8.
//
// Branches choose only the code for a whole tile: a taken branch costs some 50 cycles, and each of a scheduler's two
// warps has to finish a tile in about 1,000 (INT8 at d = 128). So documents consist of whole octets: the tokens after a
// document's end repeat its last token (tail_repeater.cuh). If a document ends, each lane stores its maxima of the
// document in shared memory, under a predicate, and the lanes that sum the document read them there. The predicate and
// the instructions that depend on it are four instructions per octet and set, in addition to the four that take the
// maxima. So if all ends of a tile lie in one quarter, only this quarter has these instructions.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/query_tile_sums.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/score_params.h"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType>
class SetMaxima {
  static constexpr int kOctets = TileOctets(kWideTokens);
  static_assert(kOctets == 4 * TileEnds::kOctetsOfQuarter);

 public:
  using Value = Sum<kType>;
  static constexpr int kSums = kWideTokens / 2;  // sums of one set that a lane has

  // `scratch` and `weights` are addresses of the warp's own shared memory: kWideMostEnds times kWideEndBytes bytes, and
  // the weights of all rows.
  __device__ __forceinline__ SetMaxima(int lane, uint32_t scratch, uint32_t weights)
      : lane_(lane), scratch_(scratch), weights_(weights), sums_(lane) {
    Clear();
  }

  // Begins with query tile `block` of the row tile: clears the maxima, reads the query tile's weights, and notes where
  // its sums are written. If the row tile has no such query tile, the weights are 0 and no sums are written. Before the
  // call, all documents that ended must have been summed (SumEnded, Finish).
  __device__ __forceinline__ void TakeQueryTile(const ScoreParams& params, const RowTile& tile, int block) {
    Clear();
    sums_.TakeQueryTile(params, tile, block);
    StoreShared(weights_ + Word(lane_ / 4, 0, lane_ % 2, lane_ / 2 % 2) * 4, sums_.weight());
  }

  // Updates a set's maxima with a tile in which no document ends.
  __device__ __forceinline__ void TakeAmid(const Value (&sums)[kSums], int set) {
#pragma unroll
    for (int h = 0; h < 2; ++h) running_[set][h] = LargestOf<0, kOctets>(sums, h, running_[set][h]);
    if (set == 0) TakeNow(running_[set][0], running_[set][1]);
  }

  // Updates a set's maxima with a tile in which documents end, and stores the maxima of these documents for SumEnded.
  // `ends` has a bit for each octet that is a document's last. All of these octets must be in the quarters of the tile
  // whose bits (0 to 3) are set in kQuarters: one quarter, or all.
  template <uint32_t kQuarters>
  __device__ __forceinline__ void TakeEnding(const Value (&sums)[kSums], int set, uint32_t ends) {
    constexpr int kFirst = LowestBit(kQuarters) * TileEnds::kOctetsOfQuarter;
    constexpr int kLast = LowestBit(~(kQuarters >> LowestBit(kQuarters))) * TileEnds::kOctetsOfQuarter + kFirst - 1;
    // The lane's number in the upper bits makes `ends` differ among lanes: the compiler spends one more instruction on
    // predicates if the value is the same in the whole warp.
    asm("or.b32 %0, %0, %1;" : "+r"(ends) : "r"(lane_ << 26));
    uint32_t place = scratch_ + Word(lane_ / 4, lane_ % 4, set, 0) * 4;
    Value of_octet[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) of_octet[h] = LargestOf<0, kFirst + 1>(sums, h, running_[set][h]);
#pragma unroll
    for (int j = kFirst; j <= kLast; ++j) {
      Value next[2][2];  // for each h the next octet's two sums, or the largest sum after kLast
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        next[h][0] = j < kLast ? sums[4 * (j + 1) + 2 * h] : LargestOf<kLast + 1, kOctets>(sums, h, LowestSum<Value>());
        next[h][1] = j < kLast ? sums[4 * (j + 1) + 2 * h + 1] : next[h][0];
      }
      EndOrGoOn(ends & 1u << j, place, of_octet, next);
    }
    const bool open = (ends & TileEnds::kNothingOpen) == 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) running_[set][h] = open ? of_octet[h] : LowestSum<Value>();
  }

  // A document that has ended, but has not been summed.
  struct Ended {
    float term = 0;  // of the lane's row
    TilePiece piece{0, 0};
    bool writes = false;  // the lane has a query's sum to write
  };

  // How many documents have ended in a tile: at most TileEnds::kFewEnds (kFew), or any number (kMany).
  enum class Count { kFew, kMany };

  // Sums the documents that ended in a tile, after the maxima of both sets have been taken. With Count::kFew, if only
  // one document ended, returns it for Finish instead of summing it. `entry` describes the tile.
  template <Count kCount>
  __device__ __forceinline__ Ended SumEnded(uint32_t ends, uint32_t entry) const {
    __syncwarp();  // every lane has stored its maxima
    const int count = __popc(ends & TileEnds::kWideOctets);
    Ended one;
    if constexpr (kCount == Count::kMany) {
      SumEight(count, entry);
    } else if (count == 1) {
      one.term = Term(0);
      one.writes = sums_.Writes();
      if (one.writes) one.piece = TilePiece::Load(TilePiece::Address(entry, 0));
    } else {
      float terms[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) terms[i] = Term(i);
      sums_.Sum(terms, 0, count, TilePiece::Address(entry, 0));
    }
    return one;
  }

  // Sums the document that SumEnded returned. Has no branches, so that the compiler can mix the butterfly, whose steps
  // wait for one another, with the code around it.
  __device__ __forceinline__ void Finish(const Ended& one) const {
    const float sum = sums_.SumOf(one.term);
    if (one.writes) sums_.Write(sum, one.piece);
  }

 private:
  static constexpr int kBatch = QueryTileSums<kType>::kMaxTerms;
  static_assert(kBatch == TileEnds::kFewEnds);

  static constexpr int LowestBit(uint32_t bits) {
    int bit = 0;
    while ((bits >> bit & 1) == 0) ++bit;
    return bit;
  }

  // Returns the place, among a document's 128 words, of lane 4 g + q's maximum of row 8 h + g of a set. The 32 words
  // with the same q lie in different banks, and so do the words that half a warp writes.
  static __device__ __forceinline__ uint32_t Word(int g, int q, int set, int h) {
    return static_cast<uint32_t>(q * 32 + ((set * 16 + g * 2 + h) ^ q * 8));
  }

  // Returns the largest of `before` and of row h's sums over octets kBegin .. kEnd - 1.
  template <int kBegin, int kEnd>
  static __device__ __forceinline__ Value LargestOf(const Value (&sums)[kSums], int h, Value before) {
    Value of_half[2] = {before, before};
#pragma unroll
    for (int j = kBegin; j < kEnd; ++j) {
      const Value of_pair = Larger(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]);
      of_half[(j - kBegin) % 2] = j == kBegin + 1 ? of_pair : Larger(of_half[(j - kBegin) % 2], of_pair);
    }
    return kEnd - kBegin > 1 ? Larger(of_half[0], of_half[1]) : of_half[0];
  }

  // A compiler barrier: the maxima are taken before the wait for the other set's products that comes next. ptxas cannot
  // move them past that wait, since a store needs them. The store never happens: no lane is beyond 31.
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

  // If a document ends, stores its two maxima at `place`; otherwise merges them into the maxima of the next octet. The
  // code is written so that ptxas makes the fewest instructions: FP32 has no maximum of three, so one predicated
  // maximum replaces a selection and a maximum.
  static __device__ __forceinline__ void EndOrGoOn(uint32_t ends, uint32_t& place, float (&of_octet)[2],
                                                   const float (&next)[2][2]) {
    const float first = of_octet[0], second = of_octet[1];
    of_octet[0] = Larger(next[0][0], next[0][1]);
    of_octet[1] = Larger(next[1][0], next[1][1]);
    asm volatile(
        "{\n.reg .pred end;\nsetp.ne.u32 end, %5, 0;\n@end st.shared.v2.f32 [%0], {%3, %4};\n"
        "@end add.u32 %0, %0, %6;\n@!end max.f32 %1, %1, %3;\n@!end max.f32 %2, %2, %4;\n}\n"
        : "+r"(place), "+f"(of_octet[0]), "+f"(of_octet[1])
        : "f"(first), "f"(second), "r"(ends), "n"(kWideEndBytes)
        : "memory");
  }
  static __device__ __forceinline__ void EndOrGoOn(uint32_t ends, uint32_t& place, int32_t (&of_octet)[2],
                                                   const int32_t (&next)[2][2]) {
    asm volatile(
        "{\n.reg .pred end;\nsetp.ne.u32 end, %3, 0;\n@end st.shared.v2.s32 [%0], {%1, %2};\n"
        "@end add.u32 %0, %0, %4;\nselp.s32 %1, 0x80000000, %1, end;\nselp.s32 %2, 0x80000000, %2, end;\n}\n"
        : "+r"(place), "+r"(of_octet[0]), "+r"(of_octet[1])
        : "r"(ends), "n"(kWideEndBytes)
        : "memory");
    of_octet[0] = Larger(of_octet[0], Larger(next[0][0], next[0][1]));
    of_octet[1] = Larger(of_octet[1], Larger(next[1][0], next[1][1]));
  }

  // Returns what the lane's query row adds to the score of a document that ended in the tile: the row's weight times
  // its maximum. `document` is the document's number among those that ended.
  __device__ __forceinline__ float Term(int document) const {
    const int g = lane_ / 4, set = lane_ % 2, h = lane_ / 2 % 2;
    Value of[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) Load(scratch_ + document * kWideEndBytes + Word(g, q, set, h) * 4, of[q]);
    return sums_.Term(Larger(Larger(of[0], of[1]), Larger(of[2], of[3])));
  }

  // Sums the first `count` documents, all at the same time.
  __device__ __forceinline__ void SumEight(int count, uint32_t entry) const {
    static_assert(EightDocuments::kDocuments == kWideMostEnds);
    const EightDocuments mine(lane_);
    const uint32_t rows = Word(2 * mine.pair, 0, mine.set, 0) * 4;
    float terms[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Value of[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // The address of the word that Word() gives for row 2 * pair, lane part q and the lane's set number i.
        const uint32_t place = scratch_ + mine.document * kWideEndBytes + (rows ^ i * 64 ^ q * 32) + q * 128;
        Value part[4];
        Load(place, part);
#pragma unroll
        for (int r = 0; r < 4; ++r) of[r] = q == 0 ? part[r] : Larger(of[r], part[r]);
      }
      float weights[4];
      Load(weights_ + (rows ^ i * 64), weights);
#pragma unroll
      for (int r = 0; r < 4; ++r) terms[i][r] = __fmul_rn(weights[r], ValueOf(of[r]));
    }
    sums_.SumEight(terms, count, TilePiece::Address(entry, 0));
  }

  static __device__ __forceinline__ void Load(uint32_t address, float& value) { value = LoadSharedFloat(address); }
  static __device__ __forceinline__ void Load(uint32_t address, int32_t& value) {
    value = static_cast<int32_t>(LoadShared(address));
  }
  template <class T>
  static __device__ __forceinline__ void Load(uint32_t address, T (&values)[4]) {
    uint32_t bits[4];
    LoadShared(address, bits[0], bits[1], bits[2], bits[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        values[i] = __uint_as_float(bits[i]);
      } else {
        values[i] = static_cast<int32_t>(bits[i]);
      }
    }
  }

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int s = 0; s < 2; ++s) running_[s][0] = running_[s][1] = LowestSum<Value>();
  }

  const int lane_;
  const uint32_t scratch_;  // [kWideMostEnds] documents that have ended
  const uint32_t weights_;  // [kQueryTileTokens] by Word() of the row
  Value running_[2][2];     // maxima so far: of a set, rows g and g + 8
  QueryTileSums<kType> sums_;
};

}  // namespace maxsim::cuda::sm90
