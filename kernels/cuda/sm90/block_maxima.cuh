// Running maxima of a warp's block of 32 query rows, and the sum of a document: the end of every wgmma kernel.
//
// The warp's sums are two sets of 16 rows, as wgmma leaves them: of set s, lane l has rows 16 s + l / 4 and 8 further,
// of tokens 8 j + 2 (l % 4) and the next.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/tile_word.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

class BlockMaxima {
 public:
  static constexpr int kSets = 2;
  static constexpr uint32_t kNone = 0xffffffff;  // no position: there are fewer candidates

  // `weights`: address of [kBlockTokens] floats of the warp's own.
  __device__ __forceinline__ BlockMaxima(uint32_t weights, int lane) : weights_(weights), lane_(lane) { Clear(); }

  // Takes weights and output of a block, which the row tile may lack. No document may wait to be summed.
  __device__ __forceinline__ void TakeBlock(const ScoreParams& params, const RowTile& tile, int block) {
    const bool present = block < tile.num_blocks;
    __syncwarp();  // the weights before have been read
    StoreShared(weights_ + lane_ * 4,
                present ? params.row_weights[tile.first_row + block * kBlockTokens + lane_] : 0.0f);
    __syncwarp();
    sums_out_ = nullptr;
    if (!present) return;
    const BlockOutput output = tile.outputs[block];
    sums_out_ =
        output.to_partials ? params.partials + (output.offset - params.pass_first) : params.scores + output.offset;
  }

  // Takes the maxima of a set's first N tokens, of which those from num_valid on, among the last kTokenGrain, do not
  // count where kMask is set.
  template <int N, bool kMask, int kSums>
  __device__ __forceinline__ void Take(const float (&sums)[kSums], int set, int num_valid) {
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const int token = j * 8 + lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool masked = kMask && j >= (N - kTokenGrain) / 8 && token + i % 2 >= num_valid;
        running_[set][i] = fmaxf(running_[set][i], masked ? __int_as_float(0xff800000) : sums[4 * j + i]);
      }
    }
  }

  // Sets a document's maxima aside, to be summed while the next tile is multiplied.
  __device__ __forceinline__ void EndDocument(uint32_t position) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) ended_[s][h] = fmaxf(running_[s][2 * h], running_[s][2 * h + 1]);
    }
    Clear();
    ended_position_ = position;
  }

  // Adds the document that ended last, if it has not been: the butterfly over 32 rows (the contract's), of which row
  // 16 s + 8 h + g is with the four lanes of lane / 4 == g.
  __device__ __forceinline__ void SumDocument() {
    if (ended_position_ == kNone) return;
    const uint32_t position = ended_position_;
    ended_position_ = kNone;
    float term[kSets][2];
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float maximum = ended_[s][h];
        maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 1));
        maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 2));
        term[s][h] = __fmul_rn(LoadSharedFloat(weights_ + (s * 16 + h * 8 + lane_ / 4) * 4), maximum);
      }
    }
    float sum = __fadd_rn(__fadd_rn(term[0][0], term[1][0]), __fadd_rn(term[0][1], term[1][1]));
#pragma unroll
    for (int distance = 16; distance >= 4; distance /= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
    }
    // -0 becomes +0, so that the sort order is total.
    if (lane_ == 0 && sums_out_ != nullptr) sums_out_[position] = __fadd_rn(sum, 0.0f);
  }

 private:
  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) running_[s][i] = __int_as_float(0xff800000);  // -infinity
    }
  }

  const uint32_t weights_;
  const int lane_;
  float running_[kSets][4];          // maxima so far: rows g and g + 8, even and odd tokens apart
  float ended_[kSets][2];            // maxima of the document that ended last, not joined over lanes yet
  float* sums_out_ = nullptr;        // [position]; null when the row tile has no such block
  uint32_t ended_position_ = kNone;  // its position; kNone: no document waits to be summed
};

}  // namespace maxsim::cuda::sm90
