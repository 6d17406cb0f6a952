// Walks through a thread block's candidates: candidate by candidate, token tile by token tile, chunk by chunk. The
// loads are a few stages ahead of the arithmetic. Loads and arithmetic each have their own Walk, and read the same
// table.
#pragma once

#include <cstdint>

#include "kernels/plan/portable_shape.h"

namespace maxsim::cuda::sm80 {

// Where a candidate's rows are.
struct Candidate {
  int64_t first_row;
  int32_t num_tokens;
  float scale;  // of quantised documents
};
static_assert(sizeof(Candidate) == kCandidateTableEntryBytes);

// A position in a thread block's work. All threads of the block have the same one.
struct Walk {
  uint32_t candidate = 0;  // of this thread block, counted from 0
  int32_t token = 0;       // first token of the token tile
  int32_t chunk = 0;

  __device__ __forceinline__ bool LastChunk(int num_chunks) const { return chunk + 1 == num_chunks; }

  template <int kTileTokens>
  __device__ __forceinline__ bool LastTile(int num_tokens) const {
    return token + kTileTokens >= num_tokens;
  }

  template <int kTileTokens>
  __device__ __forceinline__ void Advance(int num_chunks, int num_tokens) {
    if (++chunk < num_chunks) return;
    chunk = 0;
    token += kTileTokens;
    if (token < num_tokens) return;
    token = 0;
    ++candidate;
  }
};

// The candidates of one row tile that a thread block scores: every blocks_per_row_tile-th, from `first` on. The table
// looks up their locations, and with kScales their scales, half a table at a time, long before the loads need them. A
// look-up takes two dependent reads of global memory: candidate -> ordinal -> offsets.
template <bool kScales>
class CandidateTable {
 public:
  static constexpr int kHalf = kCandidateTableSize / 2;

  __device__ __forceinline__ CandidateTable(Candidate* entries, const int64_t* offsets, const float* scales,
                                            const uint32_t* ordinals, int64_t first, int64_t stride, uint32_t count)
      : entries_(entries),
        offsets_(offsets),
        scales_(scales),
        ordinals_(ordinals),
        first_(first),
        stride_(stride),
        count_(count) {}

  __device__ __forceinline__ uint32_t count() const { return count_; }
  __device__ __forceinline__ const Candidate& operator[](uint32_t candidate) const {
    return entries_[candidate % kCandidateTableSize];
  }
  // Returns the candidate's index in the row tile's list.
  __device__ __forceinline__ int64_t Position(uint32_t candidate) const { return first_ + candidate * stride_; }

  // Fills both halves. The caller must synchronise the threads before the first read.
  __device__ __forceinline__ void Start(int thread) const {
    FillHalf(0, thread);
    FillHalf(1, thread);
  }

  // Must be called with every new position of the loads. When the loads reach the middle of one half of the table, it
  // fills the other half with the candidates that come next. Nothing reads the replaced entries any more: the
  // arithmetic trails the loads by fewer than kMaxStages candidates, so it is in the same half as the loads by then. At
  // least one barrier lies between this call and the first read of a new entry.
  __device__ __forceinline__ void Refill(const Walk& loads, int thread) const {
    static_assert(kMaxStages < kHalf / 2);
    if (loads.candidate % kHalf != kHalf / 2 || loads.candidate < kHalf || loads.token != 0 || loads.chunk != 0) return;
    FillHalf(loads.candidate / kHalf + 1, thread);
  }

 private:
  __device__ __forceinline__ void FillHalf(uint32_t half, int thread) const {
    if (thread >= kHalf) return;
    const uint32_t candidate = half * kHalf + thread;
    if (candidate >= count_) return;
    const int64_t position = Position(candidate);
    const int64_t ordinal = ordinals_ == nullptr ? position : ordinals_[position];
    const int64_t begin = offsets_[ordinal];
    entries_[candidate % kCandidateTableSize] = {begin, static_cast<int32_t>(offsets_[ordinal + 1] - begin),
                                                 kScales ? scales_[ordinal] : 0.0f};
  }

  Candidate* entries_;
  const int64_t* offsets_;
  const float* scales_;
  const uint32_t* ordinals_;
  int64_t first_;
  int64_t stride_;
  uint32_t count_;
};

}  // namespace maxsim::cuda::sm80
