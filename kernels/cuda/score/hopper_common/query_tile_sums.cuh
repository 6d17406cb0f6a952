// Adds up, for each document, the weighted maxima of a warp's query tile of 32 rows: the last step of every wgmma
// kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/score_params.h"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Says what each lane reads when eight documents are summed together. A lane reads the maxima of one document: rows 8 h
// + g of both sets of 16 rows, where h = 0, 1 and g = 2 pair, 2 pair + 1. Eight neighbouring lanes read at the same
// time, each from another document. The lanes begin with different sets and pairs, so that the words that they read lie
// in different banks.
struct EightDocuments {
  static constexpr int kDocuments = 8;

  int document, pair, set;  // `set` is the lane's first one

  __device__ __forceinline__ explicit EightDocuments(int lane)
      : document(lane % 8), pair(lane / 8 ^ lane % 4), set(lane / 4 % 2) {}
};

// Each lane has one row of the query tile: 16 (lane % 2) + 8 (lane / 2 % 2) + lane / 4. One butterfly over the 32 rows
// adds the terms of several documents, in the order that all kernels keep (docs/internals/correctness.md).
template <ScalarType kType>
class QueryTileSums {
  static constexpr bool kQuantized = kType == ScalarType::kI8;

 public:
  using Value = Sum<kType>;

  // Maximum number of documents for one call of Sum.
  static constexpr int kMaxTerms = 4;
  static_assert(kMaxTerms <= kReadingLanes && kMaxQueriesOfQueryTile <= kReadingLanes);

  __device__ __forceinline__ explicit QueryTileSums(int lane) : lane_(lane) {}

  // Begins with query tile `block` (32 query rows) of the row tile: reads the query tile's weights, and notes where its
  // sums are written. If the row tile has no such query tile, the weights are 0 and no sums are written.
  __device__ __forceinline__ void TakeQueryTile(const ScoreParams& params, const RowTile& tile, int block) {
    weight_ = 0;
    out_ = nullptr;
    num_queries_ = 1;
    if (block >= tile.num_query_tiles) return;
    const int row = lane_ % 2 * 16 + lane_ / 2 % 2 * 8 + lane_ / 4;
    weight_ = params.row_weights[tile.first_row + block * kQueryTileTokens + row];
    const QueryTileOutput& output = tile.outputs[block];
    num_queries_ = __shfl_sync(0xffffffffu, output.num_queries, 0);
    const int query = row * num_queries_ / kQueryTileTokens;
    const int64_t offset = output.offsets[query];
    // If queries share the query tile, one lane per query writes the query's sums.
    if (num_queries_ > 1 && (lane_ >= num_queries_ || offset < 0)) return;
    out_ = output.to_partials ? params.partials + (offset - params.pass_first) : params.scores + offset;
  }

  __device__ __forceinline__ float weight() const { return weight_; }

  // Returns the term that the maximum of the lane's row adds to a score.
  __device__ __forceinline__ float Term(Value maximum) const { return __fmul_rn(weight_, ValueOf(maximum)); }

  // Returns the sum of one document's terms. The result is correct only in lanes that write (Writes). Each of these
  // lanes has the sum of its own query.
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

  // Writes the lane's sum of a document, if it is a lane that writes.
  __device__ __forceinline__ void Write(float sum, const TilePiece& document) const { Write(out_, sum, document); }

  // Sums the terms of `count` documents, each in the lanes that EightDocuments assigns to it. terms[0] belongs to the
  // lane's first set and terms[1] to the other set. Each of the two has the terms of rows 2 pair, 2 pair + 8, 2 pair +
  // 1 and 2 pair + 9. The order of additions is that of the butterfly: a lane gets the sums of other rows from other
  // lanes in this order.
  __device__ __forceinline__ void SumEight(const float (&terms)[2][4], int count, uint32_t pieces) const {
    if (num_queries_ == 1) {
      float of_set[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) of_set[r] = __fadd_rn(terms[0][r], terms[1][r]);  // rows 16 apart
      WriteEight(SumOfPairs(__fadd_rn(of_set[0], of_set[1]), __fadd_rn(of_set[2], of_set[3])), count, out_, pieces);
      return;
    }
    const int first_set = EightDocuments(lane_).set;
    // TakeQueryTile has given each query's output to one of the first lanes. The query's rows are in set lane % 2. With
    // four queries, each query has half of a set: half lane / 2.
#pragma unroll 1
    for (int lane = 0; lane < num_queries_; ++lane) {
      float of[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) of[r] = lane % 2 == first_set ? terms[0][r] : terms[1][r];
      float pair[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float of_four = lane / 2 == 0 ? of[2 * i] : of[2 * i + 1];
        pair[i] = num_queries_ == 2 ? __fadd_rn(of[2 * i], of[2 * i + 1]) : of_four;  // rows 8 apart
      }
      // The pointer is passed as an address of global memory: otherwise the compiler would turn the stores here and
      // elsewhere into generic stores.
      const uint64_t out = __shfl_sync(0xffffffffu, uint64_t{__cvta_generic_to_global(out_)}, lane);
      WriteEight(SumOfPairs(pair[0], pair[1]), count, static_cast<float*>(__cvta_global_to_generic(out)), pieces);
    }
  }

  // Sums the terms of documents first .. end - 1 (kMaxTerms at most), and writes each sum where the document's
  // TilePiece says; the pieces begin with document 0's at `pieces`.
  __device__ __forceinline__ void Sum(const float (&terms)[kMaxTerms], int first, int end, uint32_t pieces) const {
    if (num_queries_ == 1) {
      SumForOneQuery(terms, first, end, pieces);
    } else {
      SumForSeveralQueries(terms, first, end, pieces);
    }
  }

 private:
  // After each of the butterfly's first two distances a lane continues with fewer documents. lane % 4 says with which.
  __device__ __forceinline__ void SumForOneQuery(const float (&terms)[kMaxTerms], int first, int end,
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

  // The rows of a query of 16 rows are in the lanes with the same lane % 2; those of a query of 8 rows are in the lanes
  // with the same lane % 4. So the butterfly's larger distances, which would add absent tokens, are left out.
  __device__ __forceinline__ void SumForSeveralQueries(const float (&terms)[kMaxTerms], int first, int end,
                                                       uint32_t pieces) const {
#pragma unroll
    for (int i = 0; i < kMaxTerms; ++i) {
      float sum = terms[i];
      const float of_pair = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));  // rows 8 apart
      if (num_queries_ == 2) sum = of_pair;
#pragma unroll
      for (int lanes = 16; lanes >= 4; lanes /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
      if (i >= first && i < end) WriteAt(sum, pieces + i * kTilePieceBytes);
    }
  }

  // Adds the butterfly's last three distances, for a lane of EightDocuments with the terms of rows 2 pair and 2 pair +
  // 1.
  __device__ __forceinline__ float SumOfPairs(float first, float second) const {
    const bool far = (EightDocuments(lane_).pair & 2) != 0;
    float sum = __fadd_rn(far ? second : first, __shfl_xor_sync(0xffffffffu, far ? first : second, 16));  // 4 apart
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 8));                                           // 2 apart
    return __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 16));                                         // 1 apart
  }

  // Writes the sums of `count` documents. Lane l has the sum of document l % 8. Each of the kReadingLanes lanes writes
  // two sums.
  __device__ __forceinline__ void WriteEight(float sum, int count, float* out, uint32_t pieces) const {
    static_assert(2 * kReadingLanes == EightDocuments::kDocuments);
    const float of_other = __shfl_xor_sync(0xffffffffu, sum, kReadingLanes);
    if (lane_ >= kReadingLanes || out == nullptr) return;
    if (lane_ < count) Write(out, sum, TilePiece::Load(pieces + lane_ * kTilePieceBytes));
    const int other = lane_ + kReadingLanes;
    if (other < count) Write(out, of_other, TilePiece::Load(pieces + other * kTilePieceBytes));
  }

  static __device__ __forceinline__ void Write(float* out, float sum, const TilePiece& document) {
    if constexpr (kQuantized) sum = __fmul_rn(sum, document.scale);
    // -0 becomes +0, so that the sort order is total.
    out[document.position] = __fadd_rn(sum, 0.0f);
  }

  __device__ __forceinline__ void WriteAt(float sum, uint32_t piece) const {
    if (out_ != nullptr) Write(sum, TilePiece::Load(piece));
  }

  const int lane_;
  float weight_ = 0;      // of the lane's row
  int num_queries_ = 1;   // number of queries that share the query tile
  float* out_ = nullptr;  // [position]; null if there is no such query tile or the lane writes nothing
};

}  // namespace maxsim::cuda::sm90
