// The forward pass over residual codes on compute capability 8.0 and later: scores, and which document token each query
// token matched.
//
// A thread block has 32 tokens of one query, in shared memory where they fit. Its warps share nothing else: each scores
// every fourth of the block's pairs, document by document, tile by tile, 32 columns of the tile's tokens at a time. The
// lanes read centroid and codes of their columns, decode them in registers, and multiply; the loads of the next
// columns, of whichever tile they are, are under way meanwhile. Norms are summed up on the side, and divide the
// similarities at the tile's end. Scores are added up as in cuda/forward_kernel.cuh.
//
// NOTES:
//  - A centroid's number is wanted a tile before its columns, and where a document lies a tile before that: both are
//    read ahead, since three dependent loads a tile would be most of its time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/forward.h"
#include "kernels/library/residual_codes/coded_columns.cuh"
#include "kernels/library/residual_codes/coded_place.cuh"
#include "kernels/library/residual_codes/coded_products.cuh"

namespace maxsim::library {

// kFast: rows are aligned, and those of the query resident, as CodedParams say; otherwise they may be either.
template <ScalarType kType, int kNbits, bool kFast>
class CodedWarp {
  using Products = CodedProducts<kType>;
  using Table = WeightTable<kType, kNbits>;
  static constexpr int kGroups = Products::kGroups;
  static constexpr int kWords = kColumnWords<kType>;
  static constexpr int kNoCentroid = -1;  // the number of a token that is not there

 public:
  __device__ __forceinline__ CodedWarp(const CodedParams& params, const uint8_t* shared)
      : p_(params),
        layout_(CodedSharedOf(Table::kBytes, kFast || params.plan.resident, params.problem.queries.dim, kType)),
        shared_(shared),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        lane_table_(shared + (Table::kCopies > 1 ? lane_ * Table::kWords * 4 : 0)),
        dim_(params.problem.queries.dim),
        row_bytes_(static_cast<int32_t>(params.row_bytes)),
        packed_row_bytes_(static_cast<int32_t>(params.packed_row_bytes)),
        colbert_bits_(params.codes.bit_order == MAXSIM_COLBERT_BITS) {
    const int64_t split = blockIdx.x % p_.plan.splits;
    const int64_t rest = blockIdx.x / p_.plan.splits;
    query_tile_ = rest % p_.plan.query_tiles;
    query_ = rest / p_.plan.query_tiles;
    const int64_t list_begin = query_ * p_.problem.list_length;
    const int64_t begin = list_begin + split * p_.plan.documents_per_block;
    list_begin_ = static_cast<uint32_t>(list_begin);
    begin_ = static_cast<uint32_t>(begin);
    end_ = static_cast<uint32_t>(min(begin + p_.plan.documents_per_block, list_begin + p_.problem.list_length));
  }

  // Copies the query's rows and makes the table, with all warps of the block; a barrier is to follow.
  __device__ __forceinline__ void Prepare(uint8_t* shared) {
    const maxsim_tokens& queries = p_.problem.queries;
    const int64_t first = query_tile_ * kCodedQueryRows;
    const int64_t first_row = FirstRow(queries, query_) + first;
    num_rows_ = static_cast<int>(max(int64_t{0}, min(int64_t{kCodedQueryRows}, NumRows(queries, query_) - first)));
    query_rows_ = static_cast<const uint8_t*>(queries.rows) + first_row * row_bytes_;
    counting_ = lane_ < num_rows_ && (queries.mask == nullptr || queries.mask[first_row + lane_] != 0);
    factor_ = counting_ && p_.problem.weights != nullptr ? p_.problem.weights[first_row + lane_] : 1.0f;
    // Where there are no rows, there need not be weights either.
    if (p_.codes.bucket_weights != nullptr) {
      Table::Fill(shared, p_.codes.bucket_weights, threadIdx.x, kCodedWarps * 32);
    }
    if (!resident()) return;
    const int vectors = (dim_ + kCodedStepColumns - 1) / kCodedStepColumns * 4;  // of eight columns
    for (int idx = threadIdx.x; idx < kCodedQueryRows * vectors; idx += kCodedWarps * 32) {
      const int row = idx / vectors;
      const int vector = idx - row * vectors;
      uint32_t words[kWords];
      ReadQueryRow(row, vector * kCodedLaneColumns, words);
      uint8_t* const target = shared + layout_.query + row * layout_.query_pitch + vector * (kWords * 4);
#pragma unroll
      for (int part = 0; part < kWords / 4; ++part) {
        reinterpret_cast<uint4*>(target)[part] =
            make_uint4(words[4 * part], words[4 * part + 1], words[4 * part + 2], words[4 * part + 3]);
      }
    }
  }

  __device__ __forceinline__ void Run() {
    if (!__any_sync(0xffffffffu, counting_)) return WriteWithoutTokens();
    CodedPlace work, ahead;
    int32_t numbers[kGroups], ahead_numbers[kGroups];
    CodedColumns<kType> loads[kGroups] = {};
    Enter(work);
    ahead = work;
    Advance(ahead);
    ReadNumbers(work, numbers);
    ReadNumbers(ahead, ahead_numbers);
#pragma unroll
    for (int j = 0; j < kGroups; ++j) ReadColumns(SourceOf(work.row(), 0), numbers[j], j, loads[j]);
    ClearBest();
    const int num_steps = (dim_ + kCodedStepColumns - 1) / kCodedStepColumns;
    while (work.pair < end_) {
      Products products;
      float squares[kGroups];
      products.Clear();
#pragma unroll
      for (float& square : squares) square = 0.0f;
#pragma unroll 1
      for (int step = 0; step < num_steps; ++step) {
        const bool last = step + 1 == num_steps;
        const CodedSource next = SourceOf(last ? ahead.row() : work.row(), last ? 0 : step + 1);
        int32_t next_numbers[kGroups];
#pragma unroll
        for (int j = 0; j < kGroups; ++j) next_numbers[j] = last ? ahead_numbers[j] : numbers[j];
        const int32_t present = dim_ - (step * kCodedStepColumns + lane_ % 4 * kCodedLaneColumns);
        const auto read_row = [&](int row, uint32_t(&words)[kWords]) { ReadQuery(row, step, words); };
        products.BeginStep(lane_, read_row);
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
          uint32_t values[kWords];
          DecodeColumns<kType, kNbits, kFast>(loads[j], lane_table_, colbert_bits_, present, values, squares[j]);
          ReadColumns(next, next_numbers[j], j, loads[j]);
          products.Add(j, values);
        }
        products.EndStep(read_row);
      }
      Raise(products, squares, work);
      if (work.token + Products::kTokens >= work.span.length) Finish(work.pair);
      work = ahead;
#pragma unroll
      for (int j = 0; j < kGroups; ++j) numbers[j] = ahead_numbers[j];
      Advance(ahead);
      ReadNumbers(ahead, ahead_numbers);
    }
  }

 private:
  __device__ __forceinline__ bool aligned() const { return kFast || p_.aligned; }
  __device__ __forceinline__ bool resident() const { return kFast || p_.plan.resident; }

  __device__ __forceinline__ CodedSpan SpanOf(uint32_t pair) const {
    if (pair >= end_) return {0, 0};
    const int64_t document =
        p_.problem.pairing == MAXSIM_ALL ? int64_t{pair - list_begin_} : DocumentAt(p_.problem, pair);
    return {FirstRow(p_.problem.documents, document), NumRows(p_.problem.documents, document)};
  }

  __device__ __forceinline__ void Enter(CodedPlace& place) {
    place.pair = begin_ + warp_;
    place.span = SpanOf(place.pair);
    place.token = 0;
    next_span_ = SpanOf(place.pair + kCodedWarps);
  }

  // A document without rows has one tile all the same, of which no token counts.
  __device__ __forceinline__ void Advance(CodedPlace& place) {
    place.token += Products::kTokens;
    if (place.token < place.span.length) return;
    place.pair += kCodedWarps;
    place.span = next_span_;
    place.token = 0;
    next_span_ = SpanOf(place.pair + kCodedWarps);
  }

  // Reads the centroid numbers of a tile's tokens 8 j + g.
  __device__ __forceinline__ void ReadNumbers(const CodedPlace& place, int32_t (&numbers)[kGroups]) const {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int32_t token = place.token + 8 * j + lane_ / 4;
      numbers[j] = kNoCentroid;
      if (token >= place.span.length) continue;
      const int64_t row = place.row() + (token - place.token);
      const int64_t number = p_.codes.number_type == MAXSIM_INT32
                                 ? __ldg(static_cast<const int32_t*>(p_.codes.centroid_numbers) + row)
                                 : __ldg(static_cast<const int64_t*>(p_.codes.centroid_numbers) + row);
      // A number that is none of a centroid reads the nearest one.
      numbers[j] = static_cast<int32_t>(max(int64_t{0}, min(p_.codes.num_centroids - 1, number)));
    }
  }

  // Where the lane's columns of a step are, of the tokens 8 j + g behind `row`.
  __device__ __forceinline__ CodedSource SourceOf(int64_t row, int step) const {
    const int32_t column = step * kCodedStepColumns + lane_ % 4 * kCodedLaneColumns;
    return {column, static_cast<const uint8_t*>(p_.codes.centroids) + column * static_cast<int>(SizeOf(kType)),
            p_.codes.residuals + (row + lane_ / 4) * packed_row_bytes_ + column / 8 * kNbits};
  }

  // Reads the lane's columns of the token 8 `group` + g. What is not there is left as it is, since nothing depends on
  // it.
  __device__ __forceinline__ void ReadColumns(const CodedSource& source, int32_t number, int group,
                                              CodedColumns<kType>& columns) const {
    const uint8_t* const centroid = Computed(source.centroids + static_cast<uint64_t>(static_cast<uint32_t>(number)) *
                                                                    static_cast<uint32_t>(row_bytes_));
    const uint8_t* const codes = Computed(source.codes + 8 * group * packed_row_bytes_);
    if (number == kNoCentroid || source.column >= dim_) return;
    ReadEight<kType>(centroid, source.column, dim_, aligned(), columns.centroid);
    ReadCodes<kNbits>(codes, source.column, packed_row_bytes_, aligned(), columns.codes);
  }

  // Reads eight columns of a query row from global memory: zeros where there are none.
  __device__ __forceinline__ void ReadQueryRow(int row, int32_t column, uint32_t (&words)[kWords]) const {
#pragma unroll
    for (uint32_t& word : words) word = 0;
    if (row >= num_rows_ || column >= dim_) return;
    ReadEight<kType>(query_rows_ + row * row_bytes_ + column * static_cast<int>(SizeOf(kType)), column, dim_, aligned(),
                     words);
  }

  // Reads eight columns of a query row: those of the lane in a step.
  __device__ __forceinline__ void ReadQuery(int row, int step, uint32_t (&words)[kWords]) const {
    const int vector = step * 4 + lane_ % 4;
    if (!resident()) {
      ReadQueryRow(row, vector * kCodedLaneColumns, words);
      return;
    }
    const auto* const source =
        reinterpret_cast<const uint4*>(shared_ + layout_.query + row * layout_.query_pitch + vector * (kWords * 4));
#pragma unroll
    for (int part = 0; part < kWords / 4; ++part) {
      const uint4 read = source[part];
      words[4 * part] = read.x, words[4 * part + 1] = read.y;
      words[4 * part + 2] = read.z, words[4 * part + 3] = read.w;
    }
  }

  __device__ __forceinline__ void ClearBest() {
#pragma unroll
    for (int slot = 0; slot < Products::kSlots; ++slot) {
      best_[slot] = cuda::LowestSum<float>();
      token_[slot] = kNoCodedToken;
    }
    any_token_ = false;
  }

  // Takes in the similarities of a tile. The comparison is strict, so that the first of equals stays.
  __device__ __forceinline__ void Raise(const Products& products, float (&squares)[kGroups], const CodedPlace& place) {
    const uint8_t* const mask = p_.problem.documents.mask;
#pragma unroll
    for (float& square : squares) {
      square = __fadd_rn(square, __shfl_xor_sync(0xffffffffu, square, 1));
      square = __fadd_rn(square, __shfl_xor_sync(0xffffffffu, square, 2));
      square = p_.codes.normalize != 0 ? rsqrtf(fmaxf(square, kMinCodedNorm * kMinCodedNorm)) : 1.0f;
    }
    products.ForEach(lane_, squares, [&](int offset, const float(&values)[Products::kSlots]) {
      const int32_t token = place.token + offset;
      bool counts = token < place.span.length;
      if (counts && mask != nullptr) counts = mask[place.span.first_row + token] != 0;
      any_token_ = any_token_ || counts;
#pragma unroll
      for (int slot = 0; slot < Products::kSlots; ++slot) {
        const bool higher = counts && values[slot] > best_[slot];
        best_[slot] = higher ? values[slot] : best_[slot];
        token_[slot] = higher ? token : token_[slot];
      }
    });
  }

  // Joins what the lanes of a row have, and writes the pair's results.
  __device__ __forceinline__ void Finish(int64_t pair) {
#pragma unroll
    for (int slot = 0; slot < Products::kSlots; ++slot) {
#pragma unroll
      for (int distance = Products::kJoinFirst; distance <= Products::kJoinLast; distance *= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, best_[slot], distance);
        const int32_t token = __shfl_xor_sync(0xffffffffu, token_[slot], distance);
        if (value > best_[slot] || (value == best_[slot] && token < token_[slot])) {
          best_[slot] = value;
          token_[slot] = token;
        }
      }
    }
    Write(pair, __any_sync(0xffffffffu, any_token_), Products::OfRow(lane_, best_), Products::OfRow(lane_, token_));
    ClearBest();
  }

  // `maximum` and `token` are those of the query's row `lane`.
  __device__ __forceinline__ void Write(int64_t pair, bool any_token, float maximum, int32_t token) const {
    const int64_t max_tokens = p_.problem.queries.max_tokens;
    const int64_t query_token = query_tile_ * kCodedQueryRows + lane_;
    if (p_.argmax != nullptr && query_token < max_tokens) {
      p_.argmax[pair * max_tokens + query_token] = counting_ && token != kNoCodedToken ? token : -1;
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

  // Writes the results of a query tile of which no token counts.
  __device__ __forceinline__ void WriteWithoutTokens() const {
    for (uint32_t pair = begin_ + warp_; pair < end_; pair += kCodedWarps) Write(pair, false, 0.0f, kNoCodedToken);
  }

  const CodedParams& p_;
  const CodedShared layout_;
  const uint8_t* const shared_;
  const int lane_;
  const int warp_;
  const uint8_t* const lane_table_;
  const int32_t dim_;
  const int32_t row_bytes_;
  const int32_t packed_row_bytes_;
  const bool colbert_bits_;
  int64_t query_tile_;
  int64_t query_;
  uint32_t list_begin_;  // the query's first pair
  uint32_t begin_;       // the block's pairs
  uint32_t end_;
  const uint8_t* query_rows_ = nullptr;
  int num_rows_ = 0;
  bool counting_ = false;  // of the query's row `lane`
  float factor_ = 1.0f;
  CodedSpan next_span_ = {0, 0};  // of the document after that of the place that is ahead
  float best_[Products::kSlots];
  int32_t token_[Products::kSlots];
  bool any_token_ = false;  // whether a token of this lane's counts
};

// Thread blocks of a multiprocessor: with more, registers spill.
template <ScalarType kType, bool kFast>
inline constexpr int kCodedBlocks = kFast&& kType != ScalarType::kF32 ? 3 : 2;

template <ScalarType kType, int kNbits, bool kFast>
__global__ void __launch_bounds__(kCodedWarps * 32, kCodedBlocks<kType, kFast>)
    CodedKernel(const __grid_constant__ CodedParams params) {
  extern __shared__ __align__(128) uint8_t coded_shared[];
  CodedWarp<kType, kNbits, kFast> warp(params, coded_shared);
  warp.Prepare(coded_shared);
  __syncthreads();
  warp.Run();
}

template <ScalarType kType, int kNbits, bool kFast>
cudaError_t LaunchCodedKernelOf(const CodedParams& params, cudaStream_t stream) {
  const CodedShared shared =
      CodedSharedOf(WeightTable<kType, kNbits>::kBytes, params.plan.resident, params.problem.queries.dim, kType);
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
