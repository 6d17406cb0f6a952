// The scan of one query of up to 32 tokens over all documents, for Hopper (sm_90a), for codes without factors whose
// rows have up to 128 coordinates. wgmma multiplies 64 document tokens, which are in registers, with the query, which
// is in shared memory.
//
// Each warp has a share of the collection's tokens (token_stream.cuh). In each step it takes the next tokens of its
// share, whatever documents these belong to. The four warps of a thread block multiply together, so they take their
// steps together. In most steps no document ends among a warp's tokens, and the warp only updates the document's
// maxima. If a document ends, the tokens after its last token belong to the next document. At a document's end each
// lane gets the maximum of one query token and writes it to shared memory. When 32 documents have ended, each lane adds
// up the maxima of one of them.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "kernels/cuda/codes/common/final_score.cuh"
#include "kernels/cuda/codes/hopper/products.cuh"
#include "kernels/cuda/codes/hopper/token_stream.cuh"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/ptx/wgmma.cuh"

namespace maxsim::cuda::sm90 {

inline constexpr int kOneThreads = 128;  // a warpgroup
inline constexpr int kOneWarps = kOneThreads / 32;
inline constexpr int kRowStride = kScanPairRows + 1;  // of maxima in shared memory; + 1 avoids bank conflicts
inline constexpr int kWindow = 32;                    // documents whose scores are written together
inline constexpr int kSlots = 64;  // documents whose maxima fit: a window, and the documents of a step

// Returns the number of thread blocks per multiprocessor: as many as registers allow.
constexpr int OneBlocksPerSm(int planes, int32_t words) { return planes == 4 && words == 4 ? 5 : 4; }

struct OneShared {
  alignas(1024) uint8_t query[kScanPairRows * 128];  // K-major, swizzled; it begins with column 0 of step 0
  ScanRow rows[kScanPairRows];
  int num_steps;
  int32_t maxima[kOneWarps][kSlots * kRowStride];
};

// One warp's work. All lanes call every function together.
template <int kPlanes, int kWords>
class OneScan {
 public:
  __device__ __forceinline__ OneScan(const ScanParams& params, OneShared& shared, const TokenShare& share)
      : params_(params),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        query_(DescribeOperand(static_cast<uint32_t>(__cvta_generic_to_shared(shared.query)))),
        stream_(params.codes, share, lane_),
        lengths_(params.codes.offsets, share, lane_),
        first_(share.first_document) {
    first_slot_ = static_cast<uint32_t>(__cvta_generic_to_shared(shared.maxima[warp_])) + Row() * sizeof(int32_t);
    asm volatile("" : "+r"(first_slot_));  // keeps it in a register: the compiler would compute it for every document
  }

  // `num_steps` is the largest number of steps that any warp of the thread block has.
  __device__ __forceinline__ void Run(int num_steps) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) stream_.Load(ahead_[i]);
    left_ = lengths_.First();
    ForgetMaxima();
#pragma unroll 1
    for (int step = 0; step < num_steps; step += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) MultiplyStep(ahead_[i]);
    }
    if (ended_ > 0) WriteScores();
  }

  // Returns the number of steps of a share.
  static __device__ __forceinline__ int NumSteps(const TokenShare& share) {
    return (share.num_tokens + kTokens - 1) / kTokens;
  }

 private:
  // kOctets is the number of octets of a step. kAhead is the number of steps in registers: the step that is being
  // multiplied, and those that are being loaded.
  static constexpr int kOctets = kPlanes == 4 ? 2 : 4;
  static constexpr int kAhead = kWords == 4 ? 3 : kWords == 3 ? 1 : 2;
  static constexpr int kProducts = kOctets / 2;
  static constexpr int kTokens = kOctets * kOctetTokens;
  using Step = TokenStep<kPlanes, kWords, kOctets>;
  using Sums = int32_t[kProducts][16];

  // Returns the query token whose maximum FinishDocument leaves in this lane.
  __device__ __forceinline__ int Row() const { return (lane_ >> 3 & 3) * 8 + lane_ % 4 * 2 + (lane_ >> 2 & 1); }

  __device__ __forceinline__ void ForgetMaxima() {
#pragma unroll
    for (int i = 0; i < 8; ++i) largest_[i] = kLowest;
  }

  // Multiplies a step's tokens, and starts to load a later step into `step`.
  __device__ __forceinline__ void MultiplyStep(Step& step) {
    uint32_t tokens[kProducts][kWords][4];
#pragma unroll
    for (int i = 0; i < kProducts * kWords; ++i) {
      const int product = i / kWords, k = i % kWords;
      const StepBytes low = step.octets[2 * product].Step(k, lane_ % 4);
      const StepBytes high = step.octets[2 * product + 1].Step(k, lane_ % 4);
      tokens[product][k][0] = low.low;
      tokens[product][k][1] = high.low;
      tokens[product][k][2] = low.high;
      tokens[product][k][3] = high.high;
    }
    stream_.Load(step);
#pragma unroll
    for (int i = 0; i < kProducts * kWords * 4; ++i) {  // The bytes are there before the fence.
      asm volatile("" : "+r"(tokens[i / (kWords * 4)][i / 4 % kWords][i % 4])::"memory");
    }
    Sums sums;
    FenceOperands();
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
      MultiplyTokens<kPlanes == 1, true>(sums[product], tokens[product][0], query_);
#pragma unroll
      for (int k = 1; k < kWords; ++k) {
        MultiplyTokens<kPlanes == 1, false>(sums[product], tokens[product][k], query_ + 2 * k);
      }
    }
    CommitGroup();
    WaitGroups<0>();
#pragma unroll
    for (int product = 0; product < kProducts; ++product) Pin<32>(sums[product]);
    TakeMaxima(sums);
  }

  // Returns the lane's i-th product of an octet, i = 0 .. 7. Lane 4 g + c has the products of document token g of each
  // octet with eight query tokens q = 8 j + 2 c + b, where j = 0 .. 3 and b = 0, 1: in sums[p][4 j + b] if the octet is
  // 2 p, and in sums[p][4 j + 2 + b] if it is 2 p + 1. The i-th product is that of j = i / 2 and b = i % 2.
  static __device__ __forceinline__ int32_t Product(const Sums& sums, int octet, int i) {
    return sums[octet / 2][i / 2 * 4 + octet % 2 * 2 + i % 2];
  }

  // Updates the maxima with octets kFirst to kEnd - 1. Their tokens must all belong to one document.
  template <int kFirst, int kEnd>
  __device__ __forceinline__ void TakeOctets(const Sums& sums) {
#pragma unroll
    for (int octet = kFirst; octet < kEnd; ++octet) {
#pragma unroll
      for (int i = 0; i < 8; ++i) largest_[i] = max(largest_[i], Product(sums, octet, i));
    }
  }

  __device__ __forceinline__ void TakeMaxima(const Sums& sums) {
    if (left_ > kTokens) {
      TakeOctets<0, kOctets>(sums);
    } else {
      const int end = left_;
      left_ += lengths_.After(ended_);
      if (left_ <= kTokens) {
        TakeShort(sums, end);
      } else {
        const int octet = (end - 1) / kOctetTokens;
        if (octet == 0) TakeEnd<0>(sums, end);
        if (octet == 1) TakeEnd<1>(sums, end);
        if constexpr (kOctets == 4) {
          if (octet == 2) TakeEnd<2>(sums, end);
          if (octet == 3) TakeEnd<3>(sums, end);
        }
      }
      if (ended_ >= kWindow) {
        WriteScores();
        lengths_.NextWindow();
        scored_ += kWindow;
        ended_ -= kWindow;
      }
    }
    left_ -= kTokens;
  }

  // Updates the maxima with a step in which one document ends. The step's first `end` tokens belong to that document;
  // its last token is in octet kOctet.
  template <int kOctet>
  __device__ __forceinline__ void TakeEnd(const Sums& sums, int end) {
    TakeOctets<0, kOctet>(sums);
    const bool ended = lane_ / 4 < end - kOctet * kOctetTokens;
    const int32_t before = ended ? 0 : kFarBelow, after = ended ? kFarBelow : 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) largest_[i] = max(Product(sums, kOctet, i) + before, largest_[i]);
    FinishDocument();
#pragma unroll
    for (int i = 0; i < 8; ++i) largest_[i] = Product(sums, kOctet, i) + after;
    TakeOctets<kOctet + 1, kOctets>(sums);
  }

  // Updates the maxima with a step in which several documents end: the first one after `end` tokens, and the second one
  // after left_ tokens.
  __device__ __forceinline__ void TakeShort(const Sums& sums, int end) {
    int begin = 0;
    for (;;) {
#pragma unroll
      for (int octet = 0; octet < kOctets; ++octet) {
        const int token = octet * kOctetTokens + lane_ / 4;
        const int32_t outside = token >= begin && token < end ? 0 : kFarBelow;
#pragma unroll
        for (int i = 0; i < 8; ++i) largest_[i] = max(Product(sums, octet, i) + outside, largest_[i]);
      }
      if (end > kTokens) return;
      FinishDocument();
      ForgetMaxima();
      begin = end;
      end = left_;
      if (end <= kTokens) left_ += lengths_.After(ended_);
    }
  }

  // The eight lanes with the same lane % 4 have maxima of the same eight query tokens. Gives each of these lanes the
  // document's maximum of one of the tokens, and writes it to shared memory.
  __device__ __forceinline__ void FinishDocument() {
    int32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = KeepOne(largest_[i], largest_[i + 4], 16);
    const int32_t first = KeepOne(four[0], four[2], 8), second = KeepOne(four[1], four[3], 8);
    StoreShared(first_slot_ + (scored_ + ended_) % kSlots * (kRowStride * 4),
                static_cast<uint32_t>(KeepOne(first, second, 4)));
    ++ended_;
  }

  // Two lanes whose numbers differ in `bit` have two values each. The lane without the bit gets the larger of the two
  // first values, and the lane with the bit gets the larger of the two second values.
  __device__ __forceinline__ int32_t KeepOne(int32_t first, int32_t second, int bit) const {
    const bool upper = (lane_ & bit) != 0;
    return max(upper ? second : first, __shfl_xor_sync(kAllLanes, upper ? first : second, bit));
  }

  // Writes the scores of the first documents that have ended, up to kWindow of them. Each lane writes the score of one
  // document.
  __device__ __forceinline__ void WriteScores() {
    __syncwarp();
    if (static_cast<uint32_t>(lane_) < ended_) {
      const auto ordinal = static_cast<uint32_t>(first_ + scored_ + lane_);
      const ScanQueryParams& query = params_.queries[0];
      const int32_t* const maxima = shared_.maxima[warp_] + (scored_ + lane_) % kSlots * kRowStride;
      params_.scores[query.scores_offset + ordinal] =
          MayBeSelected(query.mask, ordinal)
              ? ScoreOfMaxima<kPlanes>(query, params_.codes, shared_.rows, maxima, ordinal)
              : kLeftOut;
    }
    __syncwarp();
  }

  static constexpr int32_t kLowest = INT_MIN / 2;  // below every product, also when kFarBelow has been added
  static constexpr int32_t kFarBelow = INT_MIN / 4;

  const ScanParams& params_;
  OneShared& shared_;
  const int lane_;
  const int warp_;
  const uint64_t query_;
  TokenStream<kPlanes, kWords, kOctets> stream_;
  DocumentLengths lengths_;
  const int64_t first_;
  uint32_t scored_ = 0;  // documents whose scores have been written
  uint32_t ended_ = 0;   // documents that have ended, but whose scores have not been written: up to kSlots
  uint32_t first_slot_;  // where the lane's maxima begin
  int32_t left_;         // tokens from the beginning of the step to the current document's end
  Step ahead_[kAhead] = {};
  int32_t largest_[8];
};

template <int kPlanes, int kWords>
__global__ void __launch_bounds__(kOneThreads, OneBlocksPerSm(kPlanes, kWords))
    ScanOneKernel(const __grid_constant__ ScanParams params) {
  extern __shared__ __align__(1024) uint8_t raw[];
  OneShared& shared = *reinterpret_cast<OneShared*>(raw);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kWords * 32; i += kOneThreads) {
    const int tile = i / (kWords * 32), step = i / 32 % kWords, lane = i % 32, row = tile * kScanTileRows + lane / 4;
    const uint4 fragment = params.fragments[i];
    const auto at = [&](int r, int half) {
      return reinterpret_cast<uint32_t*>(shared.query + OperandOffset(r, step, half, lane % 4));
    };
    *at(row, 0) = fragment.x;
    *at(row + 8, 0) = fragment.y;
    *at(row, 1) = fragment.z;
    *at(row + 8, 1) = fragment.w;
  }
  if (threadIdx.x < kScanPairRows) shared.rows[threadIdx.x] = params.rows[threadIdx.x];
  if (threadIdx.x == 0) shared.num_steps = 0;
  FenceForAsync();
  __syncthreads();
  using Scan = OneScan<kPlanes, kWords>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const TokenShare share =
      FindShare(params.codes.offsets, params.num_candidates, static_cast<int>(blockIdx.x) * kOneWarps + warp,
                static_cast<int>(gridDim.x) * kOneWarps);
  if (threadIdx.x % 32 == 0) atomicMax(&shared.num_steps, Scan::NumSteps(share));
  __syncthreads();
  Scan(params, shared, share).Run(shared.num_steps);
}

}  // namespace maxsim::cuda::sm90
