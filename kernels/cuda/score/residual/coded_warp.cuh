// A warp that scores documents of residual codes against 32 query rows, and finds which document token each row
// matched. For compute capability 8.0 and later.
//
// A thread block has 32 tokens of one query, in shared memory if they fit. Its warps share nothing else. Each warp
// scores every fourth of the block's pairs (a document and the block's query rows), document by document, tile by tile,
// 32 columns of the tile's tokens at a time. The lanes read the centroids and the codes of their columns, decode them
// in registers, and multiply. Meanwhile they load the next columns, even if these belong to the next tile. The lanes
// also sum up the norms of tokens, and divide the similarities by the norms at the end of the tile.
//
// A `Call` says where the inputs lie, and takes the results. There is one class for the service's calls (kernel.cuh)
// and one for the calls of libmaxsim (kernels/library/residual_codes/coded_forward.cuh). Its functions are:
//
//   int32_t dim()                     columns
//   int32_t row_bytes()               from one query row, and from one centroid, to the next
//   int32_t codes_stride()            from one token's codes to the next token's
//   bool aligned(), resident()        whether alignment and query rows are as kFast requires (CodedWarp)
//   bool colbert_bits(), normalize()  as ResidualDecoder::Format says; colbert_bits: not low_bits_first
//   const uint8_t* centroids()        row-major
//   const uint8_t* residuals()        the codes of row 0
//   const float* bucket_weights()     null where there are no rows
//   int32_t Centroid(row)             the number of a row's centroid, clamped to the centroids that there are
//   bool Counts(row)                  whether a document token counts
//   uint32_t begin(), end()           the block's pairs
//   CodedSpan SpanOf(pair)            the rows of a pair's document
//   const uint8_t* query_rows()       the block's query rows
//   int num_query_rows()              their number, at most kCodedQueryRows
//   bool counting()                   whether the query row of the lane's number counts
//   void Write(pair, any_token, maximum, token)   takes the results of the query row of the lane's number
//
// NOTES:
//  - Centroid numbers are read one tile ahead of the columns, and the location of a document one document ahead.
//    Without this, a tile would wait for three dependent loads, which would be most of its time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/score/residual/columns.cuh"
#include "kernels/cuda/score/residual/place.cuh"
#include "kernels/cuda/score/residual/products.cuh"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/residual_shape.h"

namespace maxsim::cuda {

// With kFast, all of these hold: eight columns of query rows and centroids lie at multiples of 16 bytes, their codes
// lie at multiples of kNbits bytes, dim is a multiple of 8, and query rows stay in shared memory. Without kFast, each
// of these may hold or not.
template <ScalarType kType, int kNbits, bool kFast, class Call>
class CodedWarp {
  using Products = CodedProducts<kType>;
  using Table = WeightTable<kType, kNbits>;
  static constexpr int kGroups = Products::kGroups;
  static constexpr int kWords = kColumnWords<kType>;
  static constexpr int kNoCentroid = -1;  // the number of a token that does not exist

 public:
  __device__ __forceinline__ CodedWarp(const Call& call, const uint8_t* shared)
      : call_(call),
        layout_(CodedSharedOf(Table::kBytes, kFast || call.resident(), call.dim(), kType)),
        shared_(shared),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        lane_table_(shared + (Table::kCopies > 1 ? lane_ * Table::kWords * 4 : 0)),
        dim_(call.dim()),
        row_bytes_(call.row_bytes()),
        codes_stride_(call.codes_stride()),
        colbert_bits_(call.colbert_bits()),
        end_(call.end()) {}

  // Copies the query's rows to shared memory, if they fit, and fills the table of weights. All warps of the thread
  // block must call it and then synchronise.
  __device__ __forceinline__ void Prepare(uint8_t* shared) {
    if (call_.bucket_weights() != nullptr) Table::Fill(shared, call_.bucket_weights(), threadIdx.x, kCodedWarps * 32);
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
    if (!__any_sync(0xffffffffu, call_.counting())) return WriteWithoutTokens();
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
  __device__ __forceinline__ bool aligned() const { return kFast || call_.aligned(); }
  __device__ __forceinline__ bool resident() const { return kFast || call_.resident(); }

  __device__ __forceinline__ CodedSpan SpanOf(uint32_t pair) const {
    return pair >= end_ ? CodedSpan{0, 0} : call_.SpanOf(pair);
  }

  __device__ __forceinline__ void Enter(CodedPlace& place) {
    place.pair = call_.begin() + warp_;
    place.span = SpanOf(place.pair);
    place.token = 0;
    next_span_ = SpanOf(place.pair + kCodedWarps);
  }

  // A document without rows has one tile, in which every token is masked.
  __device__ __forceinline__ void Advance(CodedPlace& place) {
    place.token += Products::kTokens;
    if (place.token < place.span.length) return;
    place.pair += kCodedWarps;
    place.span = next_span_;
    place.token = 0;
    next_span_ = SpanOf(place.pair + kCodedWarps);
  }

  // Reads the centroid numbers of a tile's tokens 8 j + lane / 4, for all j.
  __device__ __forceinline__ void ReadNumbers(const CodedPlace& place, int32_t (&numbers)[kGroups]) const {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int32_t token = place.token + 8 * j + lane_ / 4;
      numbers[j] = kNoCentroid;
      if (token >= place.span.length) continue;
      numbers[j] = call_.Centroid(place.row() + (token - place.token));
    }
  }

  // Returns where this lane's columns of a step are, for the token in row `row` + lane / 4. The lane's other tokens
  // follow at distances of 8 rows.
  __device__ __forceinline__ CodedSource SourceOf(int64_t row, int step) const {
    const int32_t column = step * kCodedStepColumns + lane_ % 4 * kCodedLaneColumns;
    return {column, call_.centroids() + column * static_cast<int>(SizeOf(kType)),
            call_.residuals() + (row + lane_ / 4) * codes_stride_ + column / 8 * kNbits};
  }

  // Reads the lane's columns of token 8 `group` + lane / 4. Columns that do not exist keep their old values; no result
  // depends on these.
  __device__ __forceinline__ void ReadColumns(const CodedSource& source, int32_t number, int group,
                                              CodedColumns<kType>& columns) const {
    const uint8_t* const centroid = Computed(source.centroids + static_cast<uint64_t>(static_cast<uint32_t>(number)) *
                                                                    static_cast<uint32_t>(row_bytes_));
    const uint8_t* const codes = Computed(source.codes + 8 * group * codes_stride_);
    if (number == kNoCentroid || source.column >= dim_) return;
    ReadEight<kType>(centroid, source.column, dim_, aligned(), columns.centroid);
    ReadCodes<kNbits>(codes, source.column, codes_stride_, aligned(), columns.codes);
  }

  // Reads eight columns of a query row from global memory. Columns that do not exist become zeros.
  __device__ __forceinline__ void ReadQueryRow(int row, int32_t column, uint32_t (&words)[kWords]) const {
#pragma unroll
    for (uint32_t& word : words) word = 0;
    if (row >= call_.num_query_rows() || column >= dim_) return;
    ReadEight<kType>(call_.query_rows() + row * row_bytes_ + column * static_cast<int>(SizeOf(kType)), column, dim_,
                     aligned(), words);
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
      best_[slot] = LowestSum<float>();
      token_[slot] = kNoCodedToken;
    }
    any_token_ = false;
  }

  // Updates the maxima with a tile's similarities. The comparison is strict, so that the first of equal tokens stays.
  __device__ __forceinline__ void Raise(const Products& products, float (&squares)[kGroups], const CodedPlace& place) {
#pragma unroll
    for (float& square : squares) {
      square = __fadd_rn(square, __shfl_xor_sync(0xffffffffu, square, 1));
      square = __fadd_rn(square, __shfl_xor_sync(0xffffffffu, square, 2));
      square = call_.normalize() ? rsqrtf(fmaxf(square, kMinCodedNorm * kMinCodedNorm)) : 1.0f;
    }
    products.ForEach(lane_, squares, [&](int offset, const float(&values)[Products::kSlots]) {
      const int32_t token = place.token + offset;
      const bool counts = token < place.span.length && call_.Counts(place.span.first_row + token);
      any_token_ = any_token_ || counts;
#pragma unroll
      for (int slot = 0; slot < Products::kSlots; ++slot) {
        const bool higher = counts && values[slot] > best_[slot];
        best_[slot] = higher ? values[slot] : best_[slot];
        token_[slot] = higher ? token : token_[slot];
      }
    });
  }

  // Combines the maxima of the lanes that have the same row, and writes the results.
  __device__ __forceinline__ void Finish(uint32_t pair) {
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
    call_.Write(pair, __any_sync(0xffffffffu, any_token_), Products::OfRow(lane_, best_),
                Products::OfRow(lane_, token_));
    ClearBest();
  }

  // Writes the results of a query tile in which no token counts.
  __device__ __forceinline__ void WriteWithoutTokens() const {
    for (uint32_t pair = call_.begin() + warp_; pair < end_; pair += kCodedWarps) {
      call_.Write(pair, false, 0.0f, kNoCodedToken);
    }
  }

  const Call& call_;
  const CodedShared layout_;
  const uint8_t* const shared_;
  const int lane_;
  const int warp_;
  const uint8_t* const lane_table_;
  const int32_t dim_;
  const int32_t row_bytes_;
  const int32_t codes_stride_;
  const bool colbert_bits_;
  const uint32_t end_;
  CodedSpan next_span_ = {0, 0};  // of the document after the one whose columns are being loaded
  float best_[Products::kSlots];
  int32_t token_[Products::kSlots];
  bool any_token_ = false;  // whether a token of this lane's counts
};

// Thread blocks per multiprocessor. With more, registers would spill.
template <ScalarType kType, bool kFast>
inline constexpr int kCodedBlocks = kFast&& kType != ScalarType::kF32 ? 3 : 2;

}  // namespace maxsim::cuda
