// The warps that multiply document tiles with query tiles and keep the best similarities.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/ptx/wgmma.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/forward_kernel.cuh"
#include "kernels/library/cuda/hopper/ring.cuh"
#include "kernels/library/cuda/hopper_forward.h"

namespace maxsim::library {

namespace sm90 = cuda::sm90;

// A multiplying warp. It has one query tile.
template <ScalarType kType, int kHalves, int kWarpgroups, bool kMatches, bool kTokenScales, class Shared>
class HopperMultiplier {
  static constexpr bool kSequenceScales = kType == ScalarType::kI8 && !kTokenScales;
  static constexpr int kSets = 2;
  static constexpr int kSteps = kHalves * kHopperHalfBytes / kStepBytes;
  static constexpr int kStepsOfHalf = kHopperHalfBytes / kStepBytes;
  using Sums = cuda::Sum<kType>[kHopperTokens / 2];
  // FP32 represents every sum of INT8 products exactly: a row has at most 2^10 products of at most 2^14 in magnitude,
  // so a sum is at most 2^24.
  static_assert(kType != ScalarType::kI8 || HopperMaxRowBytes(kType) <= 1 << 10);

  // A row's best similarity in the current document so far, and what is needed to find its token later. It is one of
  // the four tokens t, t + 1, t + 8 and t + 9, where t is `token`.
  struct Best {
    float value;
    float first;    // the similarity of the first token,
    float of_pair;  // the larger one of the first two,
    float third;    // and that of the third
    int32_t token;  // the first token, or kNoToken

    // Returns the first of the four tokens whose similarity is `value`.
    __device__ __forceinline__ int32_t Token() const {
      if (token == kNoToken) return kNoToken;
      return token + (first == value ? 0 : of_pair == value ? 1 : third == value ? 8 : 9);
    }
  };

 public:
  __device__ __forceinline__ HopperMultiplier(const HopperForwardParams& params, const HopperPart& part, uint32_t base,
                                              int warp)
      : p_(params), ring_(base), lane_(threadIdx.x % 32) {
    const int64_t tile_of_list = part.row_tile * (kWarpgroups * kHopperWarps) + warp;
    is_there_ = tile_of_list < params.plan.tiles_a_list;
    const int64_t tile = part.list * params.plan.tiles_a_list + tile_of_list;
    query_ = tile / params.forward.plan.query_tiles;
    query_tile_ = static_cast<int32_t>(tile % params.forward.plan.query_tiles);
    ReadRows();
  }

  __device__ __forceinline__ void Run() {
    ClearBest();
    while (true) {
      sm90::WaitBarrier(ring_.Full(), ring_.parity());
      ReadTile();
      if ((flags_ & HopperTile::kEndOfWork) != 0) return;
      if (num_tokens_ > 64) {
        Multiply<96>();
      } else if (num_tokens_ > 32) {
        Multiply<64>();
      } else {
        Multiply<32>();
      }
      any_token_ |= counts_[0] | counts_[1] | counts_[2];
      if ((flags_ & HopperTile::kLastOfDocument) != 0) {
        FinishDocument();
        ClearBest();
      }
    }
  }

 private:
  // Loads the query tile: the operands of both products, the rows' factors, and which rows count.
  __device__ __forceinline__ void ReadRows() {
    const DeviceProblem& problem = p_.forward.problem;
    const int32_t first = query_tile_ * kQueryTileTokens;
    const int num_rows = is_there_ ? max(0, min(kQueryTileTokens, NumRows(problem.queries, query_) - first)) : 0;
    const int64_t first_row = is_there_ ? FirstRow(problem.queries, query_) + first : 0;
    const int row_bytes = static_cast<int>(p_.forward.plan.row_bytes);
    const uint8_t* const rows = static_cast<const uint8_t*>(problem.queries.rows) + first_row * row_bytes;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = RowOf(s, h);
        const bool there = row < num_rows;
        const bool counts = there && (problem.queries.mask == nullptr || problem.queries.mask[first_row + row] != 0);
        row_counts_[s][h] = counts;
        factor_[s][h] = counts && problem.weights != nullptr ? problem.weights[first_row + row] : 1.0f;
        if (kType == ScalarType::kI8 && counts) {
          const int64_t idx = problem.queries.scale_of == MAXSIM_SCALE_PER_TOKEN ? first_row + row : query_;
          const float scale = problem.queries.scales[idx];
          factor_[s][h] = problem.weights == nullptr ? scale : __fmul_rn(factor_[s][h], scale);
        }
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int byte = k * kStepBytes + c * 16 + lane_ % 4 * 4;
            a_[s][k][2 * c + h] =
                there && byte < row_bytes
                    ? *reinterpret_cast<const uint32_t*>(rows + static_cast<int64_t>(row) * row_bytes + byte)
                    : 0u;
          }
        }
      }
    }
    any_row_ =
        __any_sync(0xffffffffu, row_counts_[0][0] || row_counts_[0][1] || row_counts_[1][0] || row_counts_[1][1]);
  }

  // Returns the row of the query tile to which a lane's sums of this set and h belong.
  __device__ __forceinline__ int RowOf(int set, int h) const { return set * 16 + h * 8 + lane_ / 4; }

  __device__ __forceinline__ void ReadTile() {
    uint32_t words[8] = {};
    if (lane_ == 0) {
      if constexpr (kSequenceScales) scale_ = sm90::LoadSharedFloat(ring_.Scales());
      sm90::LoadShared(ring_.Tile(), words[0], words[1], words[2], words[3]);
      sm90::LoadShared(ring_.Tile() + 16, words[4], words[5], words[6], words[7]);
    }
#pragma unroll
    for (uint32_t& word : words) word = __shfl_sync(0xffffffffu, word, 0);
#pragma unroll
    for (int w = 0; w < kHopperTokens / 32; ++w) counts_[w] = words[w];
    first_token_ = static_cast<int32_t>(words[3]);
    flags_ = words[4];
    num_tokens_ = static_cast<int32_t>(words[5]);
    place_ = static_cast<int64_t>(words[6] | uint64_t{words[7]} << 32);
  }

  __device__ __forceinline__ void ClearBest() {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        best_[s][h].value = cuda::LowestSum<float>();
        if constexpr (kMatches) best_[s][h].token = kNoToken;
      }
    }
    any_token_ = 0;
  }

  template <int N>
  __device__ __forceinline__ void StartProducts(Sums& sums, int set, uint64_t tokens) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const uint64_t step =
          k / kStepsOfHalf * (kHopperTokens * kHopperHalfBytes / 16) + k % kStepsOfHalf * (kStepBytes / 16);
      if (k == 0) {
        sm90::MultiplyAddFirst<kType, N, true>(sums, a_[set][k], tokens + step);
      } else {
        sm90::MultiplyAddFirst<kType, N, false>(sums, a_[set][k], tokens + step);
      }
    }
    sm90::CommitGroup();
  }

  // Multiplies the query tile with the document tile's first N tokens, and releases the document tile.
  template <int N>
  __device__ __forceinline__ void Multiply() {
    Sums sums[kSets];
    const bool all = (counts_[0] & (N > 32 ? counts_[1] : ~0u) & (N > 64 ? counts_[2] : ~0u)) == ~0u;
    const uint64_t tokens = sm90::DescribeOperand(ring_.Tokens());
    sm90::FenceOperands();
    StartProducts<N>(sums[0], 0, tokens);
    StartProducts<N>(sums[1], 1, tokens);
    sm90::WaitGroups<1>();
    sm90::Pin<N>(sums[0]);
    all ? Raise<N, true>(sums[0], 0) : Raise<N, false>(sums[0], 0);
    sm90::WaitGroups<0>();
    sm90::Pin<N>(sums[1]);
    if constexpr (!kTokenScales) {
      if (lane_ == 0) sm90::Arrive(ring_.Empty());
      ring_.Advance();
    }
    all ? Raise<N, true>(sums[1], 1) : Raise<N, false>(sums[1], 1);
    if constexpr (kTokenScales) {
      __syncwarp();  // all lanes have read their tokens' scales
      if (lane_ == 0) sm90::Arrive(ring_.Empty());
      ring_.Advance();
    }
  }

  // Returns the similarity that is compared: the FP32 value of a sum, times the token's scale.
  __device__ __forceinline__ static float Similarity(cuda::Sum<kType> sum, float scale) {
    return kTokenScales ? __fmul_rn(cuda::ValueOf(sum), scale) : cuda::ValueOf(sum);
  }

  // Updates the best similarities, four of a lane's tokens at a time. kAll: all N tokens count.
  template <int N, bool kAll>
  __device__ __forceinline__ void Raise(const Sums& sums, int set) {
    const int32_t own = lane_ % 4 * 2;
    int32_t raised[2] = {-1, -1};
#pragma unroll
    for (int octet = 0; octet < N / 8; octet += 2) {
      float scales[4] = {1, 1, 1, 1};
      if constexpr (kTokenScales) ReadScales(octet * 8 + own, scales);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int of = octet + j / 2;
          const bool counts = kAll || (counts_[of / 4] >> own >> (of % 4 * 8 + j % 2) & 1) != 0;
          four[j] = counts ? Similarity(sums[of * 4 + h * 2 + j % 2], scales[j]) : cuda::LowestSum<float>();
        }
        const float of_pair = fmaxf(four[0], four[1]);
        const float largest = fmaxf(of_pair, fmaxf(four[2], four[3]));
        if constexpr (kMatches) {
          RaiseTo(largest, four[0], of_pair, four[2], octet, &best_[set][h], &raised[h]);
        } else {
          best_[set][h].value = fmaxf(best_[set][h].value, largest);
        }
      }
    }
    if constexpr (kMatches) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (raised[h] >= 0) best_[set][h].token = first_token_ + own + raised[h] * 8;
      }
    }
  }

  // Reads the scales of the tile's tokens `token`, `token` + 1, `token` + 8 and `token` + 9.
  __device__ __forceinline__ void ReadScales(int32_t token, float (&scales)[4]) const {
    const uint32_t address = ring_.Scales() + token * sizeof(float);
    const uint2 first = sm90::LoadShared64(address), second = sm90::LoadShared64(address + 8 * sizeof(float));
    scales[0] = __uint_as_float(first.x);
    scales[1] = __uint_as_float(first.y);
    scales[2] = __uint_as_float(second.x);
    scales[3] = __uint_as_float(second.y);
  }

  // Replaces `best` by four new tokens if their largest similarity is larger. A lane's tokens are in ascending order,
  // so the first of equals stays. Values are copied by multiply-adds (times 1, plus 0), because selects would run on
  // the unit that is busy with comparisons. The factor 1 is a kernel parameter (p_.one), so that the assembler cannot
  // turn them into moves.
  __device__ __forceinline__ void RaiseTo(float largest, float first, float of_pair, float third, int octet, Best* best,
                                          int32_t* raised) const {
    asm("{\n.reg .pred more;\nsetp.gt.f32 more, %5, %0;\n@more fma.rn.f32 %0, %5, %10, %11;\n"
        "@more fma.rn.f32 %1, %6, %10, %11;\n@more fma.rn.f32 %2, %7, %10, %11;\n@more fma.rn.f32 %3, %8, %10, %11;\n"
        "@more mov.b32 %4, %9;\n}\n"
        : "+f"(best->value), "+f"(best->first), "+f"(best->of_pair), "+f"(best->third), "+r"(*raised)
        : "f"(largest), "f"(first), "f"(of_pair), "f"(third), "r"(octet), "f"(p_.one), "f"(0.0f));
  }

  // Combines the best similarities of the four lanes of a row, writes the matches, and adds up the weighted maxima.
  __device__ __forceinline__ void FinishDocument() {
    const DeviceProblem& problem = p_.forward.problem;
    const int64_t pair = query_ * problem.list_length + place_;
    [[maybe_unused]] const int64_t max_tokens = problem.queries.max_tokens;
    float term[kSets][2];
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float best = best_[s][h].value;
        if constexpr (kMatches) {
          int32_t token = best_[s][h].Token();
#pragma unroll
          for (int distance = 1; distance < 4; distance *= 2) {
            const float value = __shfl_xor_sync(0xffffffffu, best, distance);
            const int32_t other = __shfl_xor_sync(0xffffffffu, token, distance);
            if (value > best || (value == best && other < token)) {
              best = value;
              token = other;
            }
          }
          const int64_t query_token = query_tile_ * kQueryTileTokens + RowOf(s, h);
          if (is_there_ && lane_ % 4 == 0 && query_token < max_tokens) {
            p_.forward.argmax[pair * max_tokens + query_token] = row_counts_[s][h] && token != kNoToken ? token : -1;
          }
        } else {
#pragma unroll
          for (int distance = 1; distance < 4; distance *= 2) {
            best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, distance));
          }
        }
        term[s][h] = row_counts_[s][h] ? __fmul_rn(best, factor_[s][h]) : 0.0f;
      }
    }
    // Adds the rows in a fixed tree (butterfly): distances 16, 8, 4, 2 and 1 between rows of the query tile.
    float sum = __fadd_rn(__fadd_rn(term[0][0], term[1][0]), __fadd_rn(term[0][1], term[1][1]));
#pragma unroll
    for (int distance = 16; distance >= 4; distance /= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
    }
    if (lane_ == 0 && is_there_) WriteSum(pair, sum);
  }

  __device__ __forceinline__ void WriteSum(int64_t pair, float sum) const {
    const ForwardParams& forward = p_.forward;
    if constexpr (kSequenceScales) sum = __fmul_rn(sum, scale_);
    if (forward.partials == nullptr) {
      forward.scores[pair] = !any_row_ ? 0.0f : any_token_ == 0 ? forward.problem.empty_score : __fadd_rn(sum, 0.0f);
      return;
    }
    forward.partials[pair * forward.plan.query_tiles + query_tile_] = !any_row_ ? __uint_as_float(kNoQueryToken)
                                                                      : any_token_ == 0
                                                                          ? __uint_as_float(kNoDocumentToken)
                                                                          : sum;
  }

  const HopperForwardParams& p_;
  HopperRing<Shared> ring_;
  const int lane_;
  bool is_there_;  // whether the warp has a query tile
  int64_t query_;
  int32_t query_tile_;
  uint32_t a_[kSets][kSteps][4];
  float factor_[kSets][2];
  bool row_counts_[kSets][2];
  bool any_row_;
  Best best_[kSets][2];
  uint32_t any_token_;
  // The description of the current tile.
  uint32_t counts_[kHopperTokens / 32];
  int32_t first_token_;
  int32_t num_tokens_;
  uint32_t flags_;
  int64_t place_;
  float scale_ = 1;  // of the document, with kSequenceScales: only the first lane, which writes sums, has it
};

}  // namespace maxsim::library
