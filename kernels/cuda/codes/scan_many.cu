// The scan of any queries over codes of any shape: many queries together, long queries, long rows, tokens with factors.
//
// A warp handles one candidate at a time. For each candidate the warp goes through the queries two row tiles (32 rows)
// at a time; the fragments of the rows come from the cache. The warp expands each word of a block of tokens once and
// multiplies the result with both row tiles. Tokens beyond the document's end repeat its last token, which changes no
// maximum.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/codes/common/expand.cuh"
#include "kernels/cuda/codes/common/final_score.cuh"
#include "kernels/cuda/codes/common/quad_maximum.cuh"
#include "kernels/cuda/codes/fragments.h"
#include "kernels/cuda/codes/scan_launch.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxQueries = 64;  // kMaxScanQueries, and the bits of a word

// One warp's work on one document.
template <int kPlanes, bool kFactors>
class DocumentScan {
 public:
  // A product, or a product times the token's factor if tokens have factors.
  using Product = std::conditional_t<kFactors, int64_t, int32_t>;
  // Tiles of 8 tokens in a block of tokens: as many as registers allow.
  static constexpr int kTiles = kPlanes == 4 ? 2 : 4;

  __device__ __forceinline__ DocumentScan(const ScanParams& params, int64_t begin, int32_t tokens)
      : params_(params),
        begin_(begin),
        tokens_(tokens),
        words_(CodeWords(params.dim)),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Returns the sum of a row tile's terms. Lanes with an even number get the sum of tile `pair` * 2, and lanes with an
  // odd number get the sum of tile `pair` * 2 + 1.
  __device__ __forceinline__ int64_t SumOfTile(int pair) {
    const ScanRow* const rows = params_.rows + pair * kScanPairRows;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      offsets_[i] = rows[i / 2 * kScanTileRows + i % 2 * 8 + lane_ / 4].offset;
      largest_[i] = std::numeric_limits<Product>::min();
    }
    for (int32_t first = 0; first < tokens_; first += 8 * kTiles) {
      MultiplyBlock(pair, first);
      KeepLargest(first);
    }
    const bool odd = lane_ & 1, upper = lane_ & 2;
    const Product raw = QuadMaximum(largest_, lane_);
    const ScanRow row = rows[(odd ? kScanTileRows : 0) + (upper ? 8 : 0) + lane_ / 4];
    const int32_t query = params_.tile_queries[pair * 2 + (odd ? 1 : 0)];
    int64_t sum = RowTerm(row.multiplier, kFactors ? raw : kProductScale<kPlanes> * raw + row.offset,
                          params_.queries[query].by_upper_bound != 0);
#pragma unroll
    for (int distance = 2; distance < 32; distance *= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
    return sum;
  }

 private:
  __device__ __forceinline__ int64_t TokenAt(int32_t token) const { return begin_ + min(token, tokens_ - 1); }

  __device__ __forceinline__ CodeWord Load(int64_t token, int word) const {
    const int64_t idx = token * words_ + word;
    CodeWord loaded{};
    loaded.plane0 = __ldg(reinterpret_cast<const uint32_t*>(params_.codes.plane0) + idx);
    if constexpr (kPlanes >= 2) loaded.plane1 = __ldg(reinterpret_cast<const uint32_t*>(params_.codes.plane1) + idx);
    if constexpr (kPlanes == 4) loaded.fields = __ldg(reinterpret_cast<const uint2*>(params_.codes.planes23) + idx);
    return loaded;
  }

  // Multiplies the block of tokens that begins at `first` with the pair's rows.
  __device__ __forceinline__ void MultiplyBlock(int pair, int32_t first) {
    num_tiles_ = min(kTiles, (tokens_ - first + 7) / 8);
#pragma unroll
    for (int i = 0; i < kTiles * 8; ++i) sums_[i / 8][i / 4 % 2][i % 4] = 0;
    const int quad_lane = lane_ % 4, grouped = words_ / 4 * 4;
    for (int word = 0; word < grouped; word += 4) {
      CodeWord loaded[kTiles];
      LoadTiles(first, word + quad_lane, loaded);
#pragma unroll
      for (int part = 0; part < 4; ++part) MultiplyTiles(pair, word + part, part, loaded);
    }
    for (int word = grouped; word < words_; ++word) {
      CodeWord loaded[kTiles];
      LoadTiles(first, word, loaded);
      MultiplyTiles(pair, word, quad_lane, loaded);
    }
  }

  __device__ __forceinline__ void LoadTiles(int32_t first, int word, CodeWord (&loaded)[kTiles]) const {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (i < num_tiles_) loaded[i] = Load(TokenAt(first + 8 * i + lane_ / 4), word);
    }
  }

  __device__ __forceinline__ void MultiplyTiles(int pair, int step, int part, const CodeWord (&loaded)[kTiles]) {
    const uint4* const fragments = params_.fragments + (static_cast<int64_t>(pair) * 2 * words_ + step) * 32 + lane_;
    const uint4 query0 = __ldg(fragments), query1 = __ldg(fragments + static_cast<int64_t>(words_) * 32);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (i >= num_tiles_) break;
      const StepBytes bytes = Expand<kPlanes>(loaded[i], part);
      MultiplyStep<kPlanes>(query0, bytes, sums_[i][0]);
      MultiplyStep<kPlanes>(query1, bytes, sums_[i][1]);
    }
  }

  __device__ __forceinline__ void KeepLargest(int32_t first) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (i >= num_tiles_) break;
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        [[maybe_unused]] int64_t factor = 1;
        if constexpr (kFactors) factor = params_.codes.factors[TokenAt(first + 8 * i + lane_ % 4 * 2 + column)];
#pragma unroll
        for (int row = 0; row < 4; ++row) {
          const int32_t raw = sums_[i][row / 2][row % 2 * 2 + column];
          if constexpr (kFactors) {
            largest_[row] = LargerOf(largest_[row], (kProductScale<kPlanes> * raw + offsets_[row]) * factor);
          } else {
            largest_[row] = LargerOf(largest_[row], raw);
          }
        }
      }
    }
  }

  const ScanParams& params_;
  const int64_t begin_;
  const int32_t tokens_;
  const int words_;
  const int lane_;
  int num_tiles_ = 0;           // of the block of tokens
  int32_t sums_[kTiles][2][4];  // of the tiles and of both row tiles
  int32_t offsets_[4];          // ScanRow::offset of rows lane / 4 and lane / 4 + 8 of both row tiles
  Product largest_[4];          // of the same rows
};

template <int kPlanes, bool kFactors>
__global__ void __launch_bounds__(kWarps * 32, 2) ScanMany(const __grid_constant__ ScanParams params) {
  __shared__ int64_t all_sums[kWarps][kMaxQueries];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int64_t* const sums = all_sums[warp];
  const int64_t num_warps = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t candidate = static_cast<int64_t>(blockIdx.x) * kWarps + warp; candidate < params.num_candidates;
       candidate += num_warps) {
    const uint32_t ordinal = params.ordinals == nullptr ? static_cast<uint32_t>(candidate) : params.ordinals[candidate];
    // A bit for each query that may select the document; lane i looks at queries i and i + 32.
    uint64_t selecting = 0;
    for (int base = 0; base < kMaxQueries; base += 32) {
      const bool may = base + lane < params.num_queries && MayBeSelected(params.queries[base + lane].mask, ordinal);
      selecting |= static_cast<uint64_t>(__ballot_sync(kAllLanes, may)) << base;
      sums[base + lane] = 0;
    }
    __syncwarp();
    if (selecting != 0) {
      const int64_t begin = params.codes.offsets[ordinal];
      const auto tokens = static_cast<int32_t>(params.codes.offsets[ordinal + int64_t{1}] - begin);
      DocumentScan<kPlanes, kFactors> scan(params, begin, tokens);
      for (int pair = 0; pair < params.num_row_tiles / 2; ++pair) {
        const int32_t first_query = params.tile_queries[pair * 2], second_query = params.tile_queries[pair * 2 + 1];
        if ((selecting >> first_query & 1) == 0 && (selecting >> second_query & 1) == 0) continue;
        const int64_t sum = scan.SumOfTile(pair);
        if (lane == 0) sums[first_query] += sum;
        __syncwarp();
        if (lane == 1) sums[second_query] += sum;
        __syncwarp();
      }
    }
    for (int query = lane; query < params.num_queries; query += 32) {
      const ScanQueryParams& of_query = params.queries[query];
      params.scores[of_query.scores_offset + candidate] =
          (selecting >> query & 1) != 0
              ? FinalScore(of_query, params.codes, sums[query], ordinal, params.codes.scales[ordinal])
              : kLeftOut;
    }
    __syncwarp();
  }
}

using Kernel = void (*)(ScanParams);

Kernel KernelOf(int planes, bool factors) {
  if (planes == 1) return factors ? ScanMany<1, true> : ScanMany<1, false>;
  if (planes == 2) return factors ? ScanMany<2, true> : ScanMany<2, false>;
  return factors ? ScanMany<4, true> : ScanMany<4, false>;
}

}  // namespace

cudaError_t LaunchScanMany(const ScanParams& params, int planes, int32_t num_sms, cudaStream_t stream) {
  const Kernel kernel = KernelOf(planes, params.codes.factors != nullptr);
  int blocks_per_sm = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, kernel, kWarps * 32, 0);
  if (error != cudaSuccess) return error;
  if (blocks_per_sm == 0) return cudaErrorLaunchOutOfResources;
  const int64_t blocks = (params.num_candidates + kWarps - 1) / kWarps;
  const int64_t most = static_cast<int64_t>(num_sms) * blocks_per_sm;
  return LaunchKernel(kernel, static_cast<unsigned>(blocks < most ? blocks : most), kWarps * 32, 0, stream, params);
}

}  // namespace maxsim::cuda
