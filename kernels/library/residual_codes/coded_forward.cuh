// The forward pass over residual codes on compute capability 8.0 and later: scores, and the document token that each
// query token matched. Passes the library's calls to CodedWarp (kernels/cuda/score/residual/coded_warp.cuh), which does
// the work. Scores are added up as in cuda/forward_kernel.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/residual/coded_warp.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/forward.h"
#include "kernels/library/residual_codes/coded_forward.h"

namespace maxsim::library {

// A thread block's part of a call, in the form that CodedWarp takes: 32 tokens of a query and some of its pairs.
class LibraryCall {
 public:
  __device__ __forceinline__ explicit LibraryCall(const CodedParams& params) : p_(params), lane_(threadIdx.x % 32) {
    const int64_t split = blockIdx.x % p_.plan.splits;
    const int64_t rest = blockIdx.x / p_.plan.splits;
    query_tile_ = rest % p_.plan.query_tiles;
    const int64_t query = rest / p_.plan.query_tiles;
    const int64_t list_begin = query * p_.problem.list_length;
    const int64_t begin = list_begin + split * p_.plan.documents_per_block;
    list_begin_ = static_cast<uint32_t>(list_begin);
    begin_ = static_cast<uint32_t>(begin);
    end_ = static_cast<uint32_t>(min(begin + p_.plan.documents_per_block, list_begin + p_.problem.list_length));
    const maxsim_tokens& queries = p_.problem.queries;
    const int64_t first = query_tile_ * kCodedQueryRows;
    const int64_t first_row = FirstRow(queries, query) + first;
    num_rows_ = static_cast<int>(max(int64_t{0}, min(int64_t{kCodedQueryRows}, NumRows(queries, query) - first)));
    query_rows_ = static_cast<const uint8_t*>(queries.rows) + first_row * p_.row_bytes;
    counting_ = lane_ < num_rows_ && (queries.mask == nullptr || queries.mask[first_row + lane_] != 0);
    factor_ = counting_ && p_.problem.weights != nullptr ? p_.problem.weights[first_row + lane_] : 1.0f;
  }

  __device__ __forceinline__ int32_t dim() const { return p_.problem.queries.dim; }
  __device__ __forceinline__ int32_t row_bytes() const { return static_cast<int32_t>(p_.row_bytes); }
  __device__ __forceinline__ int32_t codes_stride() const { return static_cast<int32_t>(p_.packed_row_bytes); }
  __device__ __forceinline__ bool aligned() const { return p_.aligned; }
  __device__ __forceinline__ bool resident() const { return p_.plan.resident; }
  __device__ __forceinline__ bool colbert_bits() const { return p_.codes.bit_order == MAXSIM_COLBERT_BITS; }
  __device__ __forceinline__ bool normalize() const { return p_.codes.normalize != 0; }
  __device__ __forceinline__ const uint8_t* centroids() const {
    return static_cast<const uint8_t*>(p_.codes.centroids);
  }
  __device__ __forceinline__ const uint8_t* residuals() const { return p_.codes.residuals; }
  __device__ __forceinline__ const float* bucket_weights() const { return p_.codes.bucket_weights; }

  __device__ __forceinline__ int32_t Centroid(int64_t row) const {
    const int64_t number = p_.codes.number_type == MAXSIM_INT32
                               ? __ldg(static_cast<const int32_t*>(p_.codes.centroid_numbers) + row)
                               : __ldg(static_cast<const int64_t*>(p_.codes.centroid_numbers) + row);
    return static_cast<int32_t>(max(int64_t{0}, min(p_.codes.num_centroids - 1, number)));
  }

  __device__ __forceinline__ bool Counts(int64_t row) const {
    const uint8_t* const mask = p_.problem.documents.mask;
    return mask == nullptr || mask[row] != 0;
  }

  __device__ __forceinline__ uint32_t begin() const { return begin_; }
  __device__ __forceinline__ uint32_t end() const { return end_; }
  __device__ __forceinline__ cuda::CodedSpan SpanOf(uint32_t pair) const {
    const int64_t document =
        p_.problem.pairing == MAXSIM_ALL ? int64_t{pair - list_begin_} : DocumentAt(p_.problem, pair);
    return {FirstRow(p_.problem.documents, document), NumRows(p_.problem.documents, document)};
  }

  __device__ __forceinline__ const uint8_t* query_rows() const { return query_rows_; }
  __device__ __forceinline__ int num_query_rows() const { return num_rows_; }
  __device__ __forceinline__ bool counting() const { return counting_; }

  __device__ __forceinline__ void Write(int64_t pair, bool any_token, float maximum, int32_t token) const {
    const int64_t max_tokens = p_.problem.queries.max_tokens;
    const int64_t query_token = query_tile_ * kCodedQueryRows + lane_;
    if (p_.argmax != nullptr && query_token < max_tokens) {
      p_.argmax[pair * max_tokens + query_token] = counting_ && token != cuda::kNoCodedToken ? token : -1;
    }
    const bool any_row = __any_sync(0xffffffffu, counting_);
    float sum = counting_ ? __fmul_rn(maximum, factor_) : 0.0f;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
    }
    if (lane_ != 0) return;
    if (p_.partials == nullptr) {
      p_.scores[pair] = !any_row ? 0.0f : !any_token ? p_.problem.empty_score : __fadd_rn(sum, 0.0f);
    } else {
      p_.partials[pair * p_.plan.query_tiles + query_tile_] = !any_row     ? __uint_as_float(kNoQueryToken)
                                                              : !any_token ? __uint_as_float(kNoDocumentToken)
                                                                           : sum;
    }
  }

 private:
  const CodedParams& p_;
  const int lane_;
  int64_t query_tile_;
  uint32_t list_begin_;  // the query's first pair
  uint32_t begin_;       // the block's pairs
  uint32_t end_;
  const uint8_t* query_rows_;
  int num_rows_;
  bool counting_;  // of the query's row with the lane's number
  float factor_;
};

template <ScalarType kType, int kNbits, bool kFast>
__global__ void __launch_bounds__(kCodedWarps * 32, cuda::kCodedBlocks<kType, kFast>)
    CodedKernel(const __grid_constant__ CodedParams params) {
  extern __shared__ __align__(128) uint8_t coded_shared[];
  const LibraryCall call(params);
  cuda::CodedWarp<kType, kNbits, kFast, LibraryCall> warp(call, coded_shared);
  warp.Prepare(coded_shared);
  __syncthreads();
  warp.Run();
}

template <ScalarType kType, int kNbits, bool kFast>
cudaError_t LaunchCodedKernelOf(const CodedParams& params, cudaStream_t stream) {
  const CodedShared shared =
      CodedSharedOf(cuda::WeightTable<kType, kNbits>::kBytes, params.plan.resident, params.problem.queries.dim, kType);
  const auto kernel = CodedKernel<kType, kNbits, kFast>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared.total);
  if (error != cudaSuccess) return error;
  return cuda::LaunchKernel(kernel, dim3(static_cast<unsigned>(params.plan.num_blocks)), dim3(kCodedWarps * 32),
                            static_cast<size_t>(shared.total), stream, params);
}

template <ScalarType kType, int kNbits>
cudaError_t LaunchCodedKernel(const CodedParams& params, cudaStream_t stream) {
  return params.aligned && params.plan.resident ? LaunchCodedKernelOf<kType, kNbits, true>(params, stream)
                                                : LaunchCodedKernelOf<kType, kNbits, false>(params, stream);
}

template <ScalarType kType>
cudaError_t CodedLauncher<kType>::Launch(const CodedParams& params, cudaStream_t stream) {
  switch (params.codes.nbits) {
    case 1:
      return LaunchCodedKernel<kType, 1>(params, stream);
    case 2:
      return LaunchCodedKernel<kType, 2>(params, stream);
    case 4:
      return LaunchCodedKernel<kType, 4>(params, stream);
    default:
      return LaunchCodedKernel<kType, 8>(params, stream);
  }
}

}  // namespace maxsim::library
