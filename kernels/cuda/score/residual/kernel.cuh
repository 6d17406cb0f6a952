// Computes, for the service's calls, the scores of documents of residual codes against query tiles, or which document
// tokens the query tokens match. A thread block has a share of the candidates of one row tile, which is one query tile.
// coded_warp.cuh does the work.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/score/query_tile_sum.cuh"
#include "kernels/cuda/score/residual/coded_warp.cuh"
#include "kernels/cuda/score/residual/params.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {

// The work of a thread block. A pair is the position of a candidate, counted from the first candidate of the pass.
template <int kNbits>
class ResidualCall {
 public:
  __device__ __forceinline__ explicit ResidualCall(const ResidualParams& params)
      : p_(params),
        tile_(params.row_tiles[blockIdx.x / params.blocks_per_row_tile]),
        lane_(threadIdx.x % 32),
        codes_bytes_(params.dim * kNbits / 8),
        query_rows_(params.query_rows + tile_.first_row * params.row_bytes),
        weight_(params.row_weights[tile_.first_row + lane_]) {
    const int64_t in_pass = max(int64_t{0}, min(p_.pass_count, tile_.num_candidates - p_.pass_first));
    const int64_t share = (in_pass + p_.blocks_per_row_tile - 1) / p_.blocks_per_row_tile;
    const int64_t begin = min(in_pass, blockIdx.x % p_.blocks_per_row_tile * share);
    begin_ = static_cast<uint32_t>(begin);
    end_ = static_cast<uint32_t>(min(in_pass, begin + share));
  }

  __device__ __forceinline__ int32_t dim() const { return p_.dim; }
  __device__ __forceinline__ int32_t row_bytes() const { return p_.row_bytes; }
  __device__ __forceinline__ int32_t codes_stride() const { return p_.document_bytes; }
  __device__ __forceinline__ bool aligned() const { return p_.dim % kCodedLaneColumns == 0; }
  __device__ __forceinline__ bool resident() const { return p_.resident != 0; }
  __device__ __forceinline__ bool colbert_bits() const { return true; }
  __device__ __forceinline__ bool normalize() const { return true; }
  __device__ __forceinline__ const uint8_t* centroids() const { return p_.centroids; }
  __device__ __forceinline__ const uint8_t* residuals() const { return p_.tokens; }
  __device__ __forceinline__ const float* bucket_weights() const { return p_.bucket_weights; }

  __device__ __forceinline__ int32_t Centroid(int64_t row) const {
    const uint8_t* const at = p_.tokens + row * p_.document_bytes + codes_bytes_;
    uint32_t number = 0;
    if (codes_bytes_ % 4 == 0) {
      number = __ldg(reinterpret_cast<const uint32_t*>(at));
    } else {
#pragma unroll
      for (int byte = 0; byte < 4; ++byte) number |= static_cast<uint32_t>(__ldg(at + byte)) << (8 * byte);
    }
    return static_cast<int32_t>(min(static_cast<uint32_t>(p_.num_centroids - 1), number));
  }

  __device__ __forceinline__ bool Counts(int64_t) const { return true; }
  __device__ __forceinline__ uint32_t begin() const { return begin_; }
  __device__ __forceinline__ uint32_t end() const { return end_; }

  __device__ __forceinline__ CodedSpan SpanOf(uint32_t pair) const {
    const int64_t position = p_.pass_first + pair;
    const int64_t document = tile_.ordinals_begin < 0 ? position : __ldg(p_.ordinals + tile_.ordinals_begin + position);
    const int64_t first = __ldg(p_.offsets + document);
    return {first, static_cast<int32_t>(__ldg(p_.offsets + document + 1) - first)};
  }

  // Absent rows are zero and have weight zero.
  __device__ __forceinline__ const uint8_t* query_rows() const { return query_rows_; }
  __device__ __forceinline__ int num_query_rows() const { return kCodedQueryRows; }
  __device__ __forceinline__ bool counting() const { return true; }

  __device__ __forceinline__ void Write(uint32_t pair, bool, float maximum, int32_t token) const {
    const int64_t position = p_.pass_first + pair;
    if (p_.matches != nullptr) {
      const int64_t query_token = tile_.first_row + lane_;
      if (query_token < p_.query_tokens) p_.matches[position * p_.query_tokens + query_token] = {token, maximum};
      return;
    }
    const float sum = AddQueryTile(weight_, maximum);
    if (lane_ != 0) return;
    const QueryTileOutput& output = tile_.outputs[0];
    if (output.to_partials) {
      p_.partials[output.offsets[0] + pair] = sum;
    } else {
      p_.scores[output.offsets[0] + position] = __fadd_rn(sum, 0.0f);  // -0 becomes +0, so that the sort order is total
    }
  }

 private:
  const ResidualParams& p_;
  const RowTile& tile_;
  const int lane_;
  const int32_t codes_bytes_;
  const uint8_t* const query_rows_;
  const float weight_;  // of the query row with the lane's number
  uint32_t begin_;
  uint32_t end_;
};

template <int kNbits, bool kFast>
__global__ void __launch_bounds__(kCodedWarps * 32, kCodedBlocks<ScalarType::kF16, kFast>)
    ResidualKernel(const __grid_constant__ ResidualParams params) {
  extern __shared__ __align__(128) uint8_t coded_shared[];
  const ResidualCall<kNbits> call(params);
  if (call.begin() == call.end()) return;
  CodedWarp<ScalarType::kF16, kNbits, kFast, ResidualCall<kNbits>> warp(call, coded_shared);
  warp.Prepare(coded_shared);
  __syncthreads();
  warp.Run();
}

}  // namespace maxsim::cuda
