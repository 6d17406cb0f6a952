// The forward pass on compute capability 8.0 and later: scores, and the document token that each query token matched.
//
// A thread block has 32 or 64 rows (tokens) of one query. It processes some of the query's pairs: document by document,
// tile by tile (64 tokens), chunk by chunk (128 bytes of each row). Chunks are loaded through a ring of cp.async
// stages, ahead of the multiplications, also across documents. Warps multiply on tensor cores (FP32: by FFMA). Each
// lane keeps, for each of its rows, the best similarity so far and its token. At the end of a document, the lanes that
// share a row find the best of their similarities. Then these maxima are weighted and added in the fixed tree of
// docs/internals/correctness.md (butterfly), as in the service's kernels.
//
// NOTES:
//  - Rows past the end of a tile, or of the query, have stale data. Their products are computed but never used.
//  - A document's score is added up one chunk after its last product, so that the barrier of the ring also orders the
//    writes and reads of the maxima.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/portable/tile_loader.cuh"
#include "kernels/cuda/score/portable/warp_tile.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/forward.h"
#include "kernels/library/cuda/load_elements.cuh"

namespace maxsim::library {

inline constexpr int32_t kNoToken = INT32_MAX;

// A position in a thread block's work. It is the same in all threads.
struct ForwardPlace {
  int64_t pair;
  int64_t first_row;  // of the document
  int32_t length;     // rows of the document
  int32_t tile;
  int32_t chunk;
};

template <ScalarType kType, int kWarps, bool kSeveralChains, bool kTokenScales>
class ForwardBlock {
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRows = kWarps * kForwardWarpRows;
  static constexpr int kElementBytes = static_cast<int>(SizeOf(kType));
  static constexpr int kChunkSteps = kForwardChunkBytes / kStepBytes;
  static constexpr int kChainChunks = kChainColumns * kElementBytes / kForwardChunkBytes;
  using Products = cuda::sm80::WarpTile<kType, kForwardWarpRows, kForwardTokens, kForwardPitch, kSeveralChains>;
  static constexpr bool kIntegers = kType == ScalarType::kI8 && !kTokenScales;
  static constexpr int kRowSlots = Products::kRowSlots;
  using Best = std::conditional_t<kIntegers, int32_t, float>;  // the type in which similarities are compared

 public:
  __device__ __forceinline__ ForwardBlock(const ForwardParams& params, uint8_t* shared)
      : p_(params),
        shared_(shared),
        layout_(ForwardSharedOf(kRows, params.plan.resident, params.plan.row_bytes)),
        shared_address_(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
        row_bytes_(static_cast<int32_t>(params.plan.row_bytes)),
        num_steps_((row_bytes_ + kStepBytes - 1) / kStepBytes),
        num_chunks_((num_steps_ + kChunkSteps - 1) / kChunkSteps),
        thread_(threadIdx.x),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32) {}

  __device__ __forceinline__ void Run() {
    const int64_t split = blockIdx.x % p_.plan.splits;
    const int64_t rest = blockIdx.x / p_.plan.splits;
    row_tile_ = rest % p_.plan.row_tiles;
    const int64_t query = rest / p_.plan.row_tiles;
    const int64_t first = query * p_.problem.list_length + split * p_.plan.documents_per_block;
    end_ = min(first + p_.plan.documents_per_block, (query + 1) * p_.problem.list_length);
    ReadQuery(query);

    ForwardPlace loads, work;
    Enter(loads, first);
    work = loads;
    for (int stage = 0; stage < kForwardStages - 1; ++stage) StartStage(loads, stage);
    Products products;
    products.Clear();
    ClearBest();
    int64_t finished = -1;  // the pair whose maxima are in shared memory, not yet added; -1 if none
    bool finished_any = false;
    int stage = 0;
    int load_stage = kForwardStages - 1;
    int buffer = 0;
    while (work.pair < end_) {
      cuda::sm80::WaitCopies<kForwardStages - 2>();
      __syncthreads();
      StartStage(loads, load_stage);
      if (finished >= 0) AddRows(finished, finished_any, buffer ^ 1);
      finished = -1;
      Multiply(products, stage, work.chunk);
      if constexpr (kSeveralChains) {
        if (work.chunk + 1 < num_chunks_ && (work.chunk + 1) % kChainChunks == 0) {
          products.EndChain(work.chunk + 1 == kChainChunks);
        }
      }
      if (work.chunk + 1 == num_chunks_) {
        if (kSeveralChains && num_chunks_ > kChainChunks) products.JoinChains();
        RaiseBest(products, work);
        products.Clear();
        if ((work.tile + 1) * kForwardTokens >= work.length) {
          FinishDocument(work.pair, buffer);
          finished = work.pair;
          finished_any = any_token_;
          buffer ^= 1;
          ClearBest();
        }
      }
      Advance(work);
      stage = stage + 1 == kForwardStages ? 0 : stage + 1;
      load_stage = load_stage + 1 == kForwardStages ? 0 : load_stage + 1;
    }
    __syncthreads();
    if (finished >= 0) AddRows(finished, finished_any, buffer ^ 1);
  }

 private:
  // Finds the query's rows, reads their factors and whether they count, and starts to copy the rows to shared memory if
  // they stay there (resident).
  __device__ __forceinline__ void ReadQuery(int64_t query) {
    const maxsim_tokens& queries = p_.problem.queries;
    const int first = static_cast<int>(row_tile_) * kRows;
    const int64_t first_row = FirstRow(queries, query) + first;
    num_rows_ = max(0, min(kRows, NumRows(queries, query) - first));
    query_rows_ = static_cast<const uint8_t*>(queries.rows) + first_row * row_bytes_;
    float* const factors = reinterpret_cast<float*>(shared_ + layout_.factors);
    int32_t* const counts = reinterpret_cast<int32_t*>(shared_ + layout_.counts);
    for (int row = thread_; row < kRows; row += kThreads) {
      const bool there = row < num_rows_;
      const bool counting = there && (queries.mask == nullptr || queries.mask[first_row + row] != 0);
      float factor = counting && p_.problem.weights != nullptr ? p_.problem.weights[first_row + row] : 1.0f;
      if (kType == ScalarType::kI8 && counting) {
        const int64_t idx = queries.scale_of == MAXSIM_SCALE_PER_TOKEN ? first_row + row : query;
        factor = p_.problem.weights == nullptr ? queries.scales[idx] : __fmul_rn(factor, queries.scales[idx]);
      }
      factors[row] = factor;
      counts[row] = counting ? 1 : 0;
    }
    if (!p_.plan.resident) return;
    if (p_.aligned) {
      cuda::sm80::LoadRows<kThreads>(shared_address_ + layout_.query, layout_.query_pitch, query_rows_, num_rows_,
                                     row_bytes_, thread_);
    } else {
      LoadElements<kThreads, kElementBytes>(shared_ + layout_.query, layout_.query_pitch, query_rows_, num_rows_,
                                            row_bytes_, 0, num_steps_ * kStepBytes, thread_);
    }
  }

  __device__ __forceinline__ void Enter(ForwardPlace& place, int64_t pair) const {
    place.pair = pair;
    place.tile = 0;
    place.chunk = 0;
    if (pair >= end_) return;
    const int64_t document = DocumentAt(p_.problem, pair);
    place.first_row = FirstRow(p_.problem.documents, document);
    place.length = NumRows(p_.problem.documents, document);
  }

  // A document without rows has one tile, in which every token is masked.
  __device__ __forceinline__ void Advance(ForwardPlace& place) const {
    if (++place.chunk < num_chunks_) return;
    place.chunk = 0;
    if (++place.tile * kForwardTokens < place.length) return;
    Enter(place, place.pair + 1);
  }

  // Starts to copy the chunk at `loads`, if there is one, and advances `loads`. Always commits the copy group.
  __device__ __forceinline__ void StartStage(ForwardPlace& loads, int stage) const {
    if (loads.pair < end_) {
      const int offset = layout_.stages + stage * layout_.stage_bytes;
      const int first = loads.tile * kForwardTokens;
      const uint8_t* const rows =
          static_cast<const uint8_t*>(p_.problem.documents.rows) + (loads.first_row + first) * row_bytes_;
      LoadPart<kForwardTokens>(offset, rows, min(kForwardTokens, loads.length - first), loads.chunk);
      if (!p_.plan.resident)
        LoadPart<kRows>(offset + kForwardTokens * kForwardPitch, query_rows_, num_rows_, loads.chunk);
      Advance(loads);
    }
    cuda::sm80::CommitCopies();
  }

  template <int kMaxRows>
  __device__ __forceinline__ void LoadPart(int offset, const uint8_t* rows, int num_rows, int chunk) const {
    if (p_.aligned) {
      cuda::sm80::LoadChunk<kThreads, kMaxRows, kForwardChunkBytes>(shared_address_ + offset, rows, num_rows,
                                                                    row_bytes_, chunk, thread_);
    } else {
      const int begin = chunk * kForwardChunkBytes;
      LoadElements<kThreads, kElementBytes>(shared_ + offset, kForwardPitch, rows, num_rows, row_bytes_, begin,
                                            min(kForwardChunkBytes, num_steps_ * kStepBytes - begin), thread_);
    }
  }

  __device__ __forceinline__ void Multiply(Products& products, int stage, int chunk) const {
    const uint32_t ring = shared_address_ + layout_.stages + stage * layout_.stage_bytes;
    const int pitch = p_.plan.resident ? layout_.query_pitch : kForwardPitch;
    const uint32_t rows = (p_.plan.resident ? shared_address_ + layout_.query + chunk * kForwardChunkBytes
                                            : ring + kForwardTokens * kForwardPitch) +
                          warp_ * kForwardWarpRows * pitch + Products::RowLaneOffset(lane_, pitch);
    const uint32_t tokens = ring + Products::TokenLaneOffset(lane_);
    const int steps = min(kChunkSteps, num_steps_ - chunk * kChunkSteps);
    if (steps == kChunkSteps) {
#pragma unroll
      for (int step = 0; step < kChunkSteps; ++step) {
        products.Step(rows + step * kStepBytes, pitch, tokens + step * kStepBytes);
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        products.Step(rows + step * kStepBytes, pitch, tokens + step * kStepBytes);
      }
    }
  }

  __device__ __forceinline__ void ClearBest() {
#pragma unroll
    for (int r = 0; r < kRowSlots; ++r) {
      best_[r] = cuda::LowestSum<Best>();
      token_[r] = kNoToken;
    }
    any_token_ = false;
  }

  // Updates the best similarities with those of a tile. A lane's tokens are in ascending order and the comparison is
  // strict, so the first of equal tokens stays.
  __device__ __forceinline__ void RaiseBest(const Products& products, const ForwardPlace& place) {
    const maxsim_tokens& documents = p_.problem.documents;
    const int first = place.tile * kForwardTokens;
#pragma unroll
    for (int c = 0; c < Products::kTokenSlots; ++c) {
      const int token = first + Products::TokenOf(lane_, c);
      if (token >= place.length) continue;
      if (documents.mask != nullptr && documents.mask[place.first_row + token] == 0) continue;
      any_token_ = true;
      float scale = 1.0f;
      if constexpr (kTokenScales) scale = documents.scales[place.first_row + token];
#pragma unroll
      for (int r = 0; r < kRowSlots; ++r) {
        Best value;
        if constexpr (kTokenScales) {
          value = __fmul_rn(cuda::ValueOf(products.Value(r, c)), scale);
        } else {
          value = products.Value(r, c);
        }
        if (value > best_[r]) {
          best_[r] = value;
          token_[r] = token;
        }
      }
    }
  }

  // Combines the best similarities of the four lanes of a row, writes the matches, and stores the maxima for AddRows.
  __device__ __forceinline__ void FinishDocument(int64_t pair, int buffer) {
    any_token_ = __any_sync(0xffffffffu, any_token_);
    float* const maxima = reinterpret_cast<float*>(shared_ + layout_.maxima) + buffer * kRows;
    const int32_t* const counts = reinterpret_cast<const int32_t*>(shared_ + layout_.counts);
#pragma unroll
    for (int r = 0; r < kRowSlots; ++r) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        const Best value = __shfl_xor_sync(0xffffffffu, best_[r], distance);
        const int32_t token = __shfl_xor_sync(0xffffffffu, token_[r], distance);
        if (value > best_[r] || (value == best_[r] && token < token_[r])) {
          best_[r] = value;
          token_[r] = token;
        }
      }
      if (lane_ % 4 != 0) continue;
      const int row = warp_ * kForwardWarpRows + lane_ / 4 + 8 * r;
      maxima[row] = cuda::ValueOf(best_[r]);
      const int64_t query_token = row_tile_ * kRows + row;
      if (p_.argmax != nullptr && query_token < p_.problem.queries.max_tokens) {
        const bool matched = counts[row] != 0 && token_[r] != kNoToken;
        p_.argmax[pair * p_.problem.queries.max_tokens + query_token] = matched ? token_[r] : -1;
      }
    }
  }

  // Adds up the weighted maxima of the thread block's query tiles, one tile per warp, and writes the score or the
  // partial sums.
  __device__ __forceinline__ void AddRows(int64_t pair, bool any_token, int buffer) const {
    if (warp_ >= kRows / kQueryTileTokens) return;
    const int row = warp_ * kQueryTileTokens + lane_;
    const float maximum = reinterpret_cast<const float*>(shared_ + layout_.maxima)[buffer * kRows + row];
    const bool counting = reinterpret_cast<const int32_t*>(shared_ + layout_.counts)[row] != 0;
    const bool any_row = __any_sync(0xffffffffu, counting);
    float sum = counting ? __fmul_rn(maximum, reinterpret_cast<const float*>(shared_ + layout_.factors)[row]) : 0.0f;
#pragma unroll
    for (int distance = kQueryTileTokens / 2; distance > 0; distance /= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
    }
    if (lane_ != 0) return;
    if constexpr (kIntegers) {
      const maxsim_tokens& documents = p_.problem.documents;
      sum = __fmul_rn(sum, documents.scales[DocumentAt(p_.problem, pair)]);
    }
    if (p_.partials == nullptr) {
      p_.scores[pair] = !any_row ? 0.0f : !any_token ? p_.problem.empty_score : __fadd_rn(sum, 0.0f);
      return;
    }
    const int64_t query_tile = row_tile_ * (kRows / kQueryTileTokens) + warp_;
    if (query_tile >= p_.plan.query_tiles) return;
    p_.partials[pair * p_.plan.query_tiles + query_tile] = !any_row     ? __uint_as_float(kNoQueryToken)
                                                           : !any_token ? __uint_as_float(kNoDocumentToken)
                                                                        : sum;
  }

  const ForwardParams& p_;
  uint8_t* const shared_;
  const ForwardShared layout_;
  const uint32_t shared_address_;
  const int32_t row_bytes_;
  const int num_steps_;
  const int num_chunks_;
  const int thread_;
  const int lane_;
  const int warp_;
  int64_t row_tile_ = 0;
  int64_t end_ = 0;  // one past the thread block's last pair
  int num_rows_ = 0;
  const uint8_t* query_rows_ = nullptr;
  Best best_[kRowSlots];
  int32_t token_[kRowSlots];
  bool any_token_ = false;  // whether a document token of this lane counts; after FinishDocument, of any lane
};

// Writes the results of a thread block whose rows are all past the end of the query: no matches, and no sums.
template <int kRows>
__device__ __forceinline__ void WriteNoRows(const ForwardParams& params, int64_t query, int64_t row_tile) {
  const int64_t max_tokens = params.problem.queries.max_tokens;
  const int64_t list_begin = query * params.problem.list_length;
  const int64_t first = list_begin + blockIdx.x % params.plan.splits * params.plan.documents_per_block;
  const int64_t end = min(first + params.plan.documents_per_block, list_begin + params.problem.list_length);
  const int row = threadIdx.x;
  const int64_t query_tile = row_tile * (kRows / kQueryTileTokens) + row;
  for (int64_t pair = first; pair < end; ++pair) {
    if (params.argmax != nullptr && row < kRows && row_tile * kRows + row < max_tokens) {
      params.argmax[pair * max_tokens + row_tile * kRows + row] = -1;
    }
    if (params.partials == nullptr) {
      if (row == 0) params.scores[pair] = 0.0f;
    } else if (row < kRows / kQueryTileTokens && query_tile < params.plan.query_tiles) {
      params.partials[pair * params.plan.query_tiles + query_tile] = __uint_as_float(kNoQueryToken);
    }
  }
}

template <ScalarType kType, int kWarps, bool kSeveralChains, bool kTokenScales>
__global__ void __launch_bounds__(kWarps * 32) ForwardKernel(const __grid_constant__ ForwardParams params) {
  extern __shared__ __align__(128) uint8_t forward_shared[];
  constexpr int kRows = kWarps * kForwardWarpRows;
  const int64_t row_tile = blockIdx.x / params.plan.splits % params.plan.row_tiles;
  const int64_t query = blockIdx.x / params.plan.splits / params.plan.row_tiles;
  if (NumRows(params.problem.queries, query) <= row_tile * kRows) return WriteNoRows<kRows>(params, query, row_tile);
  ForwardBlock<kType, kWarps, kSeveralChains, kTokenScales>(params, forward_shared).Run();
}

template <ScalarType kType, int kWarps, bool kSeveralChains, bool kTokenScales>
cudaError_t LaunchForwardKernel(const ForwardParams& params, cudaStream_t stream) {
  const ForwardShared shared = ForwardSharedOf(params.plan.num_rows(), params.plan.resident, params.plan.row_bytes);
  const auto kernel = ForwardKernel<kType, kWarps, kSeveralChains, kTokenScales>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared.total);
  if (error != cudaSuccess) return error;
  return cuda::LaunchKernel(kernel, dim3(static_cast<unsigned>(params.plan.num_blocks)), dim3(kWarps * 32),
                            static_cast<size_t>(shared.total), stream, params);
}

template <ScalarType kType, bool kTokenScales>
cudaError_t ForwardLauncher<kType, kTokenScales>::Launch(const ForwardParams& params, cudaStream_t stream) {
  // INT8 needs only one chain, whatever the width, because sums of integers are exact.
  if constexpr (kType != ScalarType::kI8) {
    if (params.plan.several_chains) {
      return params.plan.num_warps == 2 ? LaunchForwardKernel<kType, 2, true, kTokenScales>(params, stream)
                                        : LaunchForwardKernel<kType, 4, true, kTokenScales>(params, stream);
    }
  }
  return params.plan.num_warps == 2 ? LaunchForwardKernel<kType, 2, false, kTokenScales>(params, stream)
                                    : LaunchForwardKernel<kType, 4, false, kTokenScales>(params, stream);
}

}  // namespace maxsim::library
