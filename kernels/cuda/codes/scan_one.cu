// The scan of one query of up to 32 tokens over codes without factors whose rows have up to 128 coordinates. The query
// stays in registers, and a document's words come from memory straight into the registers that multiply them.
//
// A warp takes chunks of up to 32 candidates, and each of its lanes looks up one candidate. Then the warp walks through
// the chunk's documents tile by tile; kAhead tiles are in registers or being loaded. A tile has groups of 8 tokens, the
// columns of a product. Groups that lie completely after the document's end are left out. In the last group, tokens
// after the end repeat the document's last token, which changes no maximum. At a document's end each lane has the
// largest product of one query token and writes it to shared memory. At the end of the chunk each lane adds up the
// products of one document.
#include <climits>

#include "kernels/cuda/codes/common/expand.cuh"
#include "kernels/cuda/codes/common/final_score.cuh"
#include "kernels/cuda/codes/common/quad_maximum.cuh"
#include "kernels/cuda/codes/common/token_words.cuh"
#include "kernels/cuda/codes/scan_launch.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kChunk = 32;              // candidates; one for each lane
constexpr int kRowStride = kChunk + 1;  // of the maxima in shared memory; + 1 avoids bank conflicts

// Groups of 8 tokens in a tile, as many as registers allow, and the tokens of a tile.
template <int kPlanes, int kWords>
inline constexpr int kGroups = kPlanes == 4 && kWords == 3 ? 2 : 4;
template <int kPlanes, int kWords>
inline constexpr int kTokens = 8 * kGroups<kPlanes, kWords>;

template <int kPlanes, int kWords>
struct Tile {
  TokenWords<kPlanes, kWords> groups[kGroups<kPlanes, kWords>];
};

// One warp's work on a chunk. All lanes call every function together.
template <int kPlanes, int kWords>
class ChunkScan {
 public:
  // kAhead is the number of tiles in registers: the tile that is being multiplied, and those that are being loaded.
  // More tiles would spill registers.
  static constexpr int kFreeRegisters = kPlanes == 1 && kWords == 4 ? 16 : 24;
  static constexpr int kTileRegisters = kGroups<kPlanes, kWords> * TokenWords<kPlanes, kWords>::kLoads * kPlanes;
  static constexpr int kAhead = kFreeRegisters > kTileRegisters ? kFreeRegisters / kTileRegisters : 1;

  __device__ __forceinline__ ChunkScan(const ScanParams& params, int32_t* maxima)
      : codes_(params.codes), maxima_(maxima), lane_(static_cast<int>(threadIdx.x) % 32) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int step = 0; step < kWords; ++step) {
        query_[tile][step] = __ldg(params.fragments + (tile * kWords + step) * 32 + lane_);
      }
    }
  }

  // Writes the largest products of document i of the chunk, one per query token, to the row that begins at maxima[i *
  // kRowStride]. Lane i passes the first token and the number of tokens of document i. Documents of 0 tokens are left
  // out.
  __device__ __forceinline__ void Run(int64_t begin, int32_t tokens) {
    begin_ = begin;
    tokens_ = tokens;
    waiting_ = to_load_ = __ballot_sync(kAllLanes, tokens > 0);
    left_ = load_left_ = 0;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) LoadNext(ahead_[i]);
    while (left_ > 0 || waiting_ != 0) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (left_ <= 0) {
          if (waiting_ == 0) break;
          StartDocument();
        }
        Multiply(ahead_[i]);
        LoadNext(ahead_[i]);
        left_ -= kTokens<kPlanes, kWords>;
        if (left_ <= 0) FinishDocument();
      }
    }
  }

 private:
  // Returns the query token whose maximum FinishDocument leaves in this lane.
  __device__ __forceinline__ int Row() const { return (lane_ & 1) * 16 + (lane_ >> 1 & 1) * 8 + lane_ / 4; }

  // Loads the next tile, if there is one.
  __device__ __forceinline__ void LoadNext(Tile<kPlanes, kWords>& tile) {
    if (load_left_ <= 0) {
      if (to_load_ == 0) return;
      const int next = __ffs(static_cast<int>(to_load_)) - 1;
      to_load_ &= to_load_ - 1;
      pointers_.Set(codes_, __shfl_sync(kAllLanes, begin_, next), lane_ % 4);
      load_left_ = __shfl_sync(kAllLanes, tokens_, next);
    }
    const int row = lane_ / 4, last = load_left_ - 1;
#pragma unroll
    for (int i = 0; i < kGroups<kPlanes, kWords>; ++i) tile.groups[i].Load(pointers_, min(row + 8 * i, last));
    pointers_.Advance(kTokens<kPlanes, kWords>);
    load_left_ -= kTokens<kPlanes, kWords>;
  }

  __device__ __forceinline__ void StartDocument() {
    document_ = __ffs(static_cast<int>(waiting_)) - 1;
    waiting_ &= waiting_ - 1;
    left_ = __shfl_sync(kAllLanes, tokens_, document_);
#pragma unroll
    for (int i = 0; i < 4; ++i) largest_[i] = INT_MIN;
  }

  // Multiplies those groups of a tile that have tokens of the document. Two groups are multiplied at a time, because
  // their products are independent and hide each other's latency.
  __device__ __forceinline__ void Multiply(const Tile<kPlanes, kWords>& tile) {
    if constexpr (kGroups<kPlanes, kWords> == 4) {
      if (left_ > 24) {
        MultiplyGroups<0, 2>(tile);
        return MultiplyGroups<2, 2>(tile);
      }
      if (left_ > 16) return MultiplyGroups<0, 3>(tile);
    }
    if (left_ > 8) return MultiplyGroups<0, 2>(tile);
    MultiplyGroups<0, 1>(tile);
  }

  template <int kFirst, int kCount>
  __device__ __forceinline__ void MultiplyGroups(const Tile<kPlanes, kWords>& tile) {
    int32_t sums[kCount][2][4] = {};
#pragma unroll
    for (int step = 0; step < kWords; ++step) {
      StepBytes bytes[kCount];
#pragma unroll
      for (int group = 0; group < kCount; ++group) bytes[group] = tile.groups[kFirst + group].Step(step, lane_ % 4);
#pragma unroll
      for (int i = 0; i < 2 * kCount; ++i) {
        MultiplyStep<kPlanes>(query_[i % 2][step], bytes[i / 2], sums[i / 2][i % 2]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4 * kCount; ++i) {
      const int32_t(&of_group)[4] = sums[i / 4][i % 4 / 2];
      largest_[i % 4] = max(max(largest_[i % 4], of_group[i % 2 * 2]), of_group[i % 2 * 2 + 1]);
    }
  }

  __device__ __forceinline__ void FinishDocument() {
    maxima_[document_ * kRowStride + Row()] = QuadMaximum(largest_, lane_);
  }

  const CodeArrays& codes_;
  int32_t* const maxima_;
  const int lane_;
  uint4 query_[2][kWords];
  int64_t begin_;
  int32_t tokens_;
  Tile<kPlanes, kWords> ahead_[kAhead] = {};
  uint32_t to_load_;                         // bit mask of the documents with no tile loaded yet
  TokenPointers<kPlanes, kWords> pointers_;  // of the next tile to load
  int32_t load_left_;
  uint32_t waiting_;  // bit mask of the documents with no tile multiplied yet
  int32_t left_;      // tokens of the document that is being multiplied
  int document_ = 0;
  int32_t largest_[4];  // of rows lane / 4 and lane / 4 + 8 of both row tiles
};

template <int kPlanes, int kWords>
__global__ void __launch_bounds__(kWarps * 32, 2) ScanOne(const __grid_constant__ ScanParams params, int chunk) {
  __shared__ int32_t maxima[kWarps][kChunk * kRowStride];
  __shared__ ScanRow rows[kScanPairRows];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x < kScanPairRows) rows[threadIdx.x] = params.rows[threadIdx.x];
  __syncthreads();
  const ScanQueryParams& query = params.queries[0];
  ChunkScan<kPlanes, kWords> scan(params, maxima[warp]);
  const int64_t num_warps = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t first = (static_cast<int64_t>(blockIdx.x) * kWarps + warp) * chunk; first < params.num_candidates;
       first += num_warps * chunk) {
    const int64_t candidate = first + lane;
    const bool is_there = lane < chunk && candidate < params.num_candidates;
    uint32_t ordinal = 0;
    int64_t begin = 0;
    int32_t tokens = 0;
    if (is_there) {
      ordinal = params.ordinals == nullptr ? static_cast<uint32_t>(candidate) : params.ordinals[candidate];
      if (MayBeSelected(query.mask, ordinal)) {
        begin = params.codes.offsets[ordinal];
        tokens = static_cast<int32_t>(params.codes.offsets[ordinal + int64_t{1}] - begin);
      }
    }
    scan.Run(begin, tokens);
    __syncwarp();
    if (is_there) {
      params.scores[query.scores_offset + candidate] =
          tokens > 0 ? ScoreOfMaxima<kPlanes>(query, params.codes, rows, maxima[warp] + lane * kRowStride, ordinal)
                     : kLeftOut;
    }
    __syncwarp();
  }
}

using Kernel = void (*)(ScanParams, int);

template <int kPlanes>
Kernel KernelOfWords(int32_t words) {
  constexpr Kernel kKernels[] = {ScanOne<kPlanes, 1>, ScanOne<kPlanes, 2>, ScanOne<kPlanes, 3>, ScanOne<kPlanes, 4>};
  return kKernels[words - 1];
}

Kernel KernelOf(int planes, int32_t words) {
  if (planes == 1) return KernelOfWords<1>(words);
  return planes == 2 ? KernelOfWords<2>(words) : KernelOfWords<4>(words);
}

}  // namespace

cudaError_t LaunchScanOne(const ScanParams& params, int planes, int32_t num_sms, cudaStream_t stream) {
  const Kernel kernel = KernelOf(planes, CodeWords(params.dim));
  int blocks_per_sm = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, kernel, kWarps * 32, 0);
  if (error != cudaSuccess) return error;
  if (blocks_per_sm == 0) return cudaErrorLaunchOutOfResources;
  const int64_t warps = static_cast<int64_t>(num_sms) * blocks_per_sm * kWarps;
  const int64_t even_share = (params.num_candidates + warps - 1) / warps;
  const int chunk = static_cast<int>(even_share < kChunk ? even_share : kChunk);
  const int64_t chunks = (params.num_candidates + chunk - 1) / chunk;
  const int64_t blocks = (chunks + kWarps - 1) / kWarps;
  const int64_t most = static_cast<int64_t>(num_sms) * blocks_per_sm;
  return LaunchKernel(kernel, static_cast<unsigned>(blocks < most ? blocks : most), kWarps * 32, 0, stream, params,
                      chunk);
}

}  // namespace maxsim::cuda
