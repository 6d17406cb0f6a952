// One warp's share of a collection as a stream of tokens that are loaded ahead of their multiplication (scan_one.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/codes/common/quad_maximum.cuh"
#include "kernels/cuda/codes/common/token_words.cuh"

namespace maxsim::cuda::sm90 {

inline constexpr int kOctetTokens = 8;

// Consecutive documents, and their tokens.
struct TokenShare {
  int64_t first_document;
  int64_t end_document;
  int64_t first_token;
  int32_t num_tokens;
};

// Returns the first document that begins at `token` or later. All lanes of a warp call this together.
__device__ __forceinline__ int64_t FindDocument(const int64_t* offsets, int64_t num_documents, int64_t token) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int64_t begin = 0, end = num_documents;  // The result is one of begin .. end.
  while (begin < end) {
    // Each lane looks at the last document of a 32nd of the range.
    const int64_t part = (end - begin + 31) / 32, last = min(begin + (lane + 1) * part, end) - 1;
    const unsigned before = __ballot_sync(kAllLanes, offsets[last] < token);
    const int64_t first = begin + __popc(before) * part;
    end = min(first + part - 1, end);
    begin = min(first, end);
    if (before == kAllLanes) break;
  }
  return begin;
}

// Returns share `idx` of `num` shares. All shares have about the same number of tokens, but a document is never cut.
__device__ __forceinline__ TokenShare FindShare(const int64_t* offsets, int64_t num_documents, int idx, int num) {
  const int64_t part = (offsets[num_documents] + num - 1) / num;
  TokenShare share{};
  share.first_document = FindDocument(offsets, num_documents, idx * part);
  share.end_document = FindDocument(offsets, num_documents, (idx + 1) * part);
  share.first_token = offsets[share.first_document];
  share.num_tokens = static_cast<int32_t>(offsets[share.end_document] - share.first_token);
  return share;
}

// A lane's words of tokens lane / 4, lane / 4 + 8 and so on of a step.
template <int kPlanes, int kWords, int kOctets>
struct TokenStep {
  static constexpr int kTokens = kOctets * kOctetTokens;
  TokenWords<kPlanes, kWords> octets[kOctets];
};

// Loads the tokens of a share, and no others.
template <int kPlanes, int kWords, int kOctets>
class TokenStream {
 public:
  using Step = TokenStep<kPlanes, kWords, kOctets>;

  __device__ __forceinline__ TokenStream(const CodeArrays& codes, const TokenShare& share, int lane)
      : row_(lane / 4), left_(share.num_tokens) {
    pointers_.Set(codes, share.first_token + row_, lane % 4);
  }

  // Loads the next step. If the share ends in this step, its last token is repeated. Steps after the share's end load
  // nothing.
  __device__ __forceinline__ void Load(Step& step) {
    if (left_ >= Step::kTokens) {
#pragma unroll
      for (int i = 0; i < kOctets; ++i) step.octets[i].Load(pointers_, i * kOctetTokens);
    } else if (left_ > 0) {
#pragma unroll
      for (int i = 0; i < kOctets; ++i) {
        step.octets[i].Load(pointers_, min(row_ + i * kOctetTokens, left_ - 1) - row_);
      }
    }
    pointers_.Advance(Step::kTokens);
    left_ -= Step::kTokens;
  }

 private:
  const int row_;
  TokenPointers<kPlanes, kWords> pointers_;  // of row_ of the next step
  int32_t left_;                             // tokens of the share from the next step on
};

// The lengths of a share's documents, one after another, in windows of 32.
class DocumentLengths {
 public:
  __device__ __forceinline__ DocumentLengths(const int64_t* offsets, const TokenShare& share, int lane)
      : offsets_(offsets), next_(share.first_document + 1 + lane), end_(share.end_document) {
    first_ =
        share.num_tokens > 0 ? static_cast<int32_t>(offsets[share.first_document + 1] - share.first_token) : kNoEnd;
    lengths_ = LookUp();
    next_lengths_ = LookUp();
  }

  // Returns the length of the share's first document, or kNoEnd if the share has no document.
  __device__ __forceinline__ int32_t First() const { return first_; }
  // Returns the length of the document after document `idx`, where documents 0 .. 63 are those of this window and of
  // the next window. Returns kNoEnd if `idx` is the share's last document.
  __device__ __forceinline__ int32_t After(uint32_t idx) const {
    return __shfl_sync(kAllLanes, idx < 32 ? lengths_ : next_lengths_, static_cast<int>(idx % 32));
  }

  __device__ __forceinline__ void NextWindow() {
    lengths_ = next_lengths_;
    next_lengths_ = LookUp();
  }

 private:
  static constexpr int32_t kNoEnd = 1 << 30;

  __device__ __forceinline__ int32_t LookUp() {
    int32_t length = kNoEnd;
    if (next_ < end_) length = static_cast<int32_t>(offsets_[next_ + 1] - offsets_[next_]);
    next_ += 32;
    return length;
  }

  const int64_t* const offsets_;
  int64_t next_;
  const int64_t end_;
  int32_t first_;
  int32_t lengths_;  // lane i: length of the document after document i of the window
  int32_t next_lengths_;
};

}  // namespace maxsim::cuda::sm90
