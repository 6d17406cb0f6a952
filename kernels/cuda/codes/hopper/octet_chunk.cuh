// A chunk of candidates as a sequence of octets of tokens (scan_many.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/codes/common/expand.cuh"
#include "kernels/cuda/codes/common/final_score.cuh"
#include "kernels/cuda/codes/common/quad_maximum.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"

namespace maxsim::cuda::sm90 {

// All words of one token.
template <int kPlanes, int kWords>
struct RowWords {
  CodeWord words[kWords];

  __device__ __forceinline__ void Load(const CodeArrays& codes, int64_t token) {
    if constexpr (kWords == 4) {
      const uint4 plane0 = __ldg(reinterpret_cast<const uint4*>(codes.plane0) + token);
      words[0].plane0 = plane0.x, words[1].plane0 = plane0.y, words[2].plane0 = plane0.z, words[3].plane0 = plane0.w;
      if constexpr (kPlanes >= 2) {
        const uint4 plane1 = __ldg(reinterpret_cast<const uint4*>(codes.plane1) + token);
        words[0].plane1 = plane1.x, words[1].plane1 = plane1.y, words[2].plane1 = plane1.z, words[3].plane1 = plane1.w;
      }
      if constexpr (kPlanes == 4) {
        const uint4* const fields = reinterpret_cast<const uint4*>(codes.planes23) + 2 * token;
        const uint4 low = __ldg(fields), high = __ldg(fields + 1);
        words[0].fields = {low.x, low.y}, words[1].fields = {low.z, low.w};
        words[2].fields = {high.x, high.y}, words[3].fields = {high.z, high.w};
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int64_t idx = token * kWords + i;
        words[i].plane0 = __ldg(reinterpret_cast<const uint32_t*>(codes.plane0) + idx);
        if constexpr (kPlanes >= 2) words[i].plane1 = __ldg(reinterpret_cast<const uint32_t*>(codes.plane1) + idx);
        if constexpr (kPlanes == 4) words[i].fields = __ldg(reinterpret_cast<const uint2*>(codes.planes23) + idx);
      }
    }
  }

  // Returns the bytes that lane `part` of a quad would multiply in a step.
  __device__ __forceinline__ StepBytes Step(int step, int part) const {
    return kWords == 4 ? Expand<kPlanes>(words[part], step) : Expand<kPlanes>(words[step], part);
  }
};

// Up to 32 candidates, one per lane, with their tokens in octets (groups of eight). Candidates that no query may select
// have no octets. All lanes of a warp must call every function together.
class OctetChunk {
 public:
  __device__ __forceinline__ OctetChunk(const ScanParams& params, int first_query, int num_queries, int64_t first,
                                        int chunk_candidates, int lane)
      : lane_(lane) {
    const int64_t candidate = first + lane;
    is_there_ = lane < chunk_candidates && candidate < params.num_candidates;
    if (is_there_) {
      ordinal_ = params.ordinals == nullptr ? static_cast<uint32_t>(candidate) : params.ordinals[candidate];
      bool may = false;
      for (int query = 0; query < num_queries && !may; ++query) {
        may = MayBeSelected(params.queries[first_query + query].mask, ordinal_);
      }
      if (may) {
        begin_ = params.codes.offsets[ordinal_];
        tokens_ = static_cast<int32_t>(params.codes.offsets[ordinal_ + int64_t{1}] - begin_);
        scale_ = params.codes.scales[ordinal_];
      }
    }
    __syncwarp();
    const int octets = (tokens_ + 7) / 8;
    end_ = octets;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(kAllLanes, end_, distance);
      if (lane >= distance) end_ += before;
    }
    first_octet_ = end_ - octets;
    num_octets_ = __shfl_sync(kAllLanes, end_, 31);
  }

  // Returns whether the lane has a candidate that no query may select.
  __device__ __forceinline__ bool IsLeftOut() const { return is_there_ && tokens_ == 0; }
  __device__ __forceinline__ int num_octets() const { return num_octets_; }

  // Returns the token of row lane % 8 of octet `octet` + lane / 8, or -1 if the chunk has no such octet.
  __device__ __forceinline__ int64_t TokenOf(int octet, int lane) const {
    int document = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = __popc(__ballot_sync(kAllLanes, end_ <= octet + i));
      if (lane / 8 == i) document = at;
    }
    const int64_t begin = __shfl_sync(kAllLanes, begin_, document);
    const int tokens = __shfl_sync(kAllLanes, tokens_, document);
    const int first_octet = __shfl_sync(kAllLanes, first_octet_, document);
    const int row = (octet + lane / 8 - first_octet) * 8 + lane % 8;
    return octet + lane / 8 < num_octets_ ? begin + min(row, tokens - 1) : -1;
  }

  // Returns a bit for each of the `num` octets from `octet` on. A bit is set if the octet is its document's last.
  __device__ __forceinline__ uint32_t EndsIn(int octet, int num) const {
    return __reduce_or_sync(kAllLanes, EndBit(octet, num));
  }

  // Writes to shared memory, for each document that ends in the octets of EndsIn, its lane, ordinal and scale: 16 bytes
  // per document, in the order of the documents.
  __device__ __forceinline__ void NameEnded(int octet, int num, uint32_t ends, uint32_t shared) const {
    const uint32_t mine = EndBit(octet, num);
    if (mine == 0) return;
    StoreShared(shared + __popc(ends & (mine - 1)) * 16, static_cast<uint32_t>(lane_), ordinal_,
                __float_as_uint(scale_), 0u);
  }

 private:
  __device__ __forceinline__ uint32_t EndBit(int octet, int num) const {
    const int last = end_ - 1 - octet;
    return tokens_ > 0 && last >= 0 && last < num ? 1u << last : 0u;
  }

  int lane_;
  bool is_there_;
  uint32_t ordinal_ = 0;
  int64_t begin_ = 0;
  int32_t tokens_ = 0;
  float scale_ = 0;
  int first_octet_;  // of the lane's document
  int end_;          // one past the document's last octet
  int num_octets_;
};

}  // namespace maxsim::cuda::sm90
