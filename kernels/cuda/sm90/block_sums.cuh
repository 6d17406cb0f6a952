// The sums of documents over a warp's block of 32 query rows: the end of every wgmma kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/token_tile.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/plan.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// A lane has one row of the block: 16 (lane % 2) + 8 (lane / 2 % 2) + lane / 4. The terms of several documents are
// added by a common butterfly over the 32 rows (the contract's).
template <ScalarType kType>
class BlockSums {
  static constexpr bool kQuantized = kType == ScalarType::kI8;

 public:
  using Value = Sum<kType>;

  // Documents that are summed at once.
  static constexpr int kMost = 4;
  static_assert(kMost <= kReadingLanes && kMaxQueriesOfBlock <= kReadingLanes);

  __device__ __forceinline__ explicit BlockSums(int lane) : lane_(lane) {}

  // Takes weights and output of a block, which the row tile may lack.
  __device__ __forceinline__ void TakeBlock(const ScoreParams& params, const RowTile& tile, int block) {
    weight_ = 0;
    out_ = nullptr;
    num_queries_ = 1;
    if (block >= tile.num_blocks) return;
    const int row = lane_ % 2 * 16 + lane_ / 2 % 2 * 8 + lane_ / 4;
    weight_ = params.row_weights[tile.first_row + block * kBlockTokens + row];
    const BlockOutput& output = tile.outputs[block];
    num_queries_ = __shfl_sync(0xffffffffu, output.num_queries, 0);
    const int query = row * num_queries_ / kBlockTokens;
    const int64_t offset = output.offsets[query];
    // Of a shared block one lane of a query's writes its sums.
    if (num_queries_ > 1 && (lane_ >= num_queries_ || offset < 0)) return;
    out_ = output.to_partials ? params.partials + (offset - params.pass_first) : params.scores + offset;
  }

  // What the maximum of the lane's row adds.
  __device__ __forceinline__ float Term(Value maximum) const { return __fmul_rn(weight_, ValueOf(maximum)); }

  // The sum of one document's terms, in lanes that write; each has its query's.
  __device__ __forceinline__ float SumOf(float term) const {
    const float of_pair = __fadd_rn(term, __shfl_xor_sync(0xffffffffu, term, 1));  // rows 16 apart
    float sum = num_queries_ == 1 ? of_pair : term;
    const float of_four = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));  // 8 apart
    if (num_queries_ <= 2) sum = of_four;
#pragma unroll
    for (int lanes = 16; lanes >= 4; lanes /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
    return sum;
  }
  __device__ __forceinline__ bool Writes() const { return lane_ < num_queries_ && out_ != nullptr; }

  // Writes the lane's sum of a document; for lanes that write.
  __device__ __forceinline__ void Write(float sum, const TilePiece& document) const {
    if constexpr (kQuantized) sum = __fmul_rn(sum, document.scale);
    // -0 becomes +0, so that the sort order is total.
    out_[document.position] = __fadd_rn(sum, 0.0f);
  }

  // Sums the terms of documents first .. end (kMost at most), and writes the sums where the documents' TilePieces, that
  // begin with document 0's at `pieces`, say.
  __device__ __forceinline__ void Sum(const float (&terms)[kMost], int first, int end, uint32_t pieces) const {
    if (num_queries_ == 1) {
      SumForOneQuery(terms, first, end, pieces);
    } else {
      SumForSeveralQueries(terms, first, end, pieces);
    }
  }

 private:
  // With the first two distances of the butterfly lanes go on with fewer documents each, so that lane % 4 says which.
  __device__ __forceinline__ void SumForOneQuery(const float (&terms)[kMost], int first, int end,
                                                 uint32_t pieces) const {
    const bool odd = (lane_ & 1) != 0, second_pair = (lane_ & 2) != 0;
    float of_pair[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = odd ? terms[2 * i + 1] : terms[2 * i];
      const float given = odd ? terms[2 * i] : terms[2 * i + 1];
      of_pair[i] = __fadd_rn(kept, __shfl_xor_sync(0xffffffffu, given, 1));  // rows 16 apart
    }
    float sum = __fadd_rn(second_pair ? of_pair[1] : of_pair[0],
                          __shfl_xor_sync(0xffffffffu, second_pair ? of_pair[0] : of_pair[1], 2));  // 8 apart
#pragma unroll
    for (int lanes = 16; lanes >= 4; lanes /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
    if (lane_ >= first && lane_ < end) WriteAt(sum, pieces + lane_ * kTilePieceBytes);
  }

  // Queries of 16 rows are each with the lanes of one lane % 2, and of 8 rows with those of one lane % 4. The
  // butterfly's greater distances would add absent tokens.
  __device__ __forceinline__ void SumForSeveralQueries(const float (&terms)[kMost], int first, int end,
                                                       uint32_t pieces) const {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      float sum = terms[i];
      const float of_pair = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));  // rows 8 apart
      if (num_queries_ == 2) sum = of_pair;
#pragma unroll
      for (int lanes = 16; lanes >= 4; lanes /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
      if (i >= first && i < end) WriteAt(sum, pieces + i * kTilePieceBytes);
    }
  }

  __device__ __forceinline__ void WriteAt(float sum, uint32_t piece) const {
    if (out_ != nullptr) Write(sum, TilePiece::Load(piece));
  }

  const int lane_;
  float weight_ = 0;      // of the lane's row
  int num_queries_ = 1;   // that share the block
  float* out_ = nullptr;  // [position]; null where the row tile has no such block, or the lane writes nothing
};

}  // namespace maxsim::cuda::sm90
