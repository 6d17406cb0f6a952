// Gradients of documents if every query is scored against every document. A thread block computes the gradients of a
// tile of one document's tokens. It reads the document's part of the argmax in the order of queries and tokens, and
// adds up in shared memory, without atomic additions.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"

namespace maxsim::library {
namespace {

constexpr int kOwnerWarps = 16;
// Each thread reads one entry of the argmax per round.
constexpr int kOwnerThreads = kOwnerWarps * 32;
// Query rows that a warp reads at a time, to hide memory latency.
constexpr uint32_t kRowsAtATime = 8;
constexpr uint8_t kNoOwner = 0xff;

// A match of a token of the tile.
struct alignas(16) TileMatch {
  int64_t query_row;
  float factor;  // the gradient of the score times the weight
  uint32_t row;  // of the tile
};

// The matches that a thread block reads in one round, one per thread, in the order of the argmax. matches[t] is valid
// only if owners[t] is not kNoOwner.
struct Round {
  TileMatch matches[kOwnerThreads];
  alignas(16) uint8_t owners[kOwnerThreads];  // the warp that a match belongs to, or kNoOwner
};

// The shared memory of a thread block. After it comes a row of kBackwardColumns sums for each token of the tile.
struct OwnerShared {
  Round rounds[2];                                         // one is read while the other is written
  alignas(16) uint16_t lists[kOwnerWarps][kOwnerThreads];  // the matches of each warp in a round
};
constexpr int64_t kSumsBytes = kBackwardColumns * sizeof(float);

// Reads a document's part of the argmax: entry e is token e % max_tokens of query e / max_tokens. Each thread reads
// every kOwnerThreads-th entry. To overlap loads with additions, a match is read two rounds before it is used, and the
// gradient of its score one round before.
class EntryReader {
 public:
  __device__ __forceinline__ EntryReader(const BackwardParams& params, uint32_t document, int32_t first_token,
                                         int32_t num_rows)
      : params_(params),
        max_tokens_(static_cast<uint32_t>(params.problem.queries.max_tokens)),
        num_documents_(static_cast<uint32_t>(params.problem.list_length)),
        entries_left_(static_cast<int64_t>(NumEntriesOfDocument(params.problem)) - threadIdx.x),
        first_token_(first_token),
        num_rows_(num_rows) {
    next_.pair = document;
    Move(threadIdx.x / max_tokens_, threadIdx.x % max_tokens_);
    queries_a_round_ = kOwnerThreads / max_tokens_;
    tokens_a_round_ = kOwnerThreads % max_tokens_;
    ReadArgmax();
    ReadGradient();
    ReadArgmax();
  }

  // Returns the rounds that it takes to read all entries.
  __device__ __forceinline__ uint32_t num_rounds() const {
    return (NumEntriesOfDocument(params_.problem) + kOwnerThreads - 1) / kOwnerThreads;
  }

  // Writes the thread's next match.
  __device__ __forceinline__ void Write(Round* round) {
    const Ready ready = ready_;
    ReadGradient();
    ReadArgmax();
    uint8_t owner = kNoOwner;
    if (ready.gradient != 0) {
      owner = static_cast<uint8_t>(ready.row % kOwnerWarps);
      round->matches[threadIdx.x] = {ready.query_row, __fmul_rn(ready.gradient, ready.weight), ready.row};
    }
    round->owners[threadIdx.x] = owner;
  }

 private:
  struct Entry {
    uint32_t query = 0;
    uint32_t token = 0;
    uint32_t pair = 0;
  };
  struct Ready {
    int64_t query_row = 0;
    float gradient = 0;  // of the score; 0 if the entry points to no row of the tile
    float weight = 1;
    uint32_t row = 0;
  };

  // The numbers of a document's pairs and entries fit 31 bits (CheckGradientSizes).
  static __device__ __forceinline__ uint32_t NumEntriesOfDocument(const DeviceProblem& problem) {
    return static_cast<uint32_t>(problem.queries.num_sequences * problem.queries.max_tokens);
  }

  // Advances the position next_ by `queries` queries and `tokens` tokens. `tokens` must be below max_tokens.
  __device__ __forceinline__ void Move(uint32_t queries, uint32_t tokens) {
    next_.token += tokens;
    if (next_.token >= max_tokens_) {
      next_.token -= max_tokens_;
      ++queries;
    }
    next_.query += queries;
    next_.pair += queries * num_documents_;
  }

  __device__ __forceinline__ void ReadArgmax() {
    read_ = next_;
    // row_ is negative if the token has no match, or if its match lies before the tile.
    row_ = entries_left_ > 0 ? params_.argmax[int64_t{read_.pair} * max_tokens_ + read_.token] - first_token_ : -1;
    entries_left_ -= kOwnerThreads;
    Move(queries_a_round_, tokens_a_round_);
  }

  __device__ __forceinline__ void ReadGradient() {
    ready_ = {};
    if (row_ < 0 || row_ >= num_rows_) return;
    ready_.row = static_cast<uint32_t>(row_);
    ready_.query_row = FirstRow(params_.problem.queries, read_.query) + read_.token;
    ready_.gradient = params_.score_gradients[read_.pair];
    if (params_.problem.weights != nullptr) ready_.weight = params_.problem.weights[ready_.query_row];
  }

  const BackwardParams& params_;
  uint32_t max_tokens_;
  uint32_t num_documents_;
  int64_t entries_left_;
  int32_t first_token_;
  int32_t num_rows_;
  uint32_t queries_a_round_ = 0;
  uint32_t tokens_a_round_ = 0;

  Entry next_;        // the entry to read next
  Entry read_;        // the entry whose match was read last
  int32_t row_ = -1;  // the match of read_ as a row of the tile; it may lie outside of the tile
  Ready ready_;       // the last match whose gradient was read
};

// Returns a bit for each of the four bytes that is `value`.
__device__ __forceinline__ uint32_t EqualBytes(uint32_t bytes, uint32_t value) {
  // The multiplication moves bits 0, 8, 16 and 24 to bits 28 .. 31. No two partial products share a bit, so there is no
  // carry.
  return ((__vcmpeq4(bytes, value * 0x01010101u) & 0x01010101u) * 0x10204080u) >> 28;
}

// The work of one warp: it adds up every kOwnerWarps-th row of the tile, and each of its lanes has four columns of
// these rows.
template <class T, bool kAligned>
class RowOwner {
 public:
  __device__ __forceinline__ RowOwner(const BackwardParams& params, OwnerShared* shared)
      : params_(params),
        warp_(threadIdx.x / 32),
        lane_(threadIdx.x % 32),
        column_(static_cast<int32_t>(blockIdx.y * kBackwardColumns + lane_ * 4)),
        list_(shared->lists[warp_]),
        sums_(reinterpret_cast<float4*>(shared + 1) + lane_) {}

  __device__ __forceinline__ void Clear(uint32_t num_rows) {
    for (uint32_t row = warp_; row < num_rows; row += kOwnerWarps) sums_[row * 32] = make_float4(0, 0, 0, 0);
  }

  // Adds the warp's matches of a round, in their order.
  __device__ __forceinline__ void Add(const Round& round) {
    const uint32_t count = ListMatches(round);
    for (uint32_t first = 0; first < count; first += kRowsAtATime) {
      // Loads eight match numbers at once. Replaces those past the end of the list, which are garbage, by the first of
      // the eight, whose row is then read again but not added again.
      static_assert(kRowsAtATime * sizeof(uint16_t) == sizeof(uint4));
      const uint4 listed = *reinterpret_cast<const uint4*>(list_ + first);
      const uint32_t words[4] = {listed.x, listed.y, listed.z, listed.w};
      TileMatch matches[kRowsAtATime];
      FourElements<T> rows[kRowsAtATime];
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtATime; ++i) {
        const uint32_t number = first + i < count ? words[i / 2] >> (i % 2 * 16) & 0xffffu : words[0] & 0xffffu;
        matches[i] = round.matches[number];
        rows[i] = ReadElements<T, kAligned>(params_.problem.queries.rows, matches[i].query_row,
                                            params_.problem.queries.dim, column_);
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtATime; ++i) {
        if (first + i >= count) break;
        float4* const place = sums_ + matches[i].row * 32;
        const float4 before = *place;
        Columns sum{{before.x, before.y, before.z, before.w}};
        sum.Add(matches[i].factor, Widen(rows[i]));
        *place = make_float4(sum.values[0], sum.values[1], sum.values[2], sum.values[3]);
      }
    }
    __syncwarp();  // the list may be written again
  }

  // Writes the sums to rows `first_row` .. of the gradients.
  __device__ __forceinline__ void Write(uint32_t num_rows, int64_t first_row) const {
    for (uint32_t row = warp_; row < num_rows; row += kOwnerWarps) {
      const float4 sum = sums_[row * 32];
      WriteColumns<T>(params_.document_gradients, first_row + row, params_.problem.queries.dim, column_, kAligned,
                      Columns{{sum.x, sum.y, sum.z, sum.w}});
    }
  }

 private:
  // Writes the list of the warp's matches in a round and returns their number. Each lane checks 16 of the round's
  // matches.
  __device__ __forceinline__ uint32_t ListMatches(const Round& round) {
    static_assert(kOwnerThreads == 32 * sizeof(uint4));
    const uint4 owners = reinterpret_cast<const uint4*>(round.owners)[lane_];
    uint32_t mine = EqualBytes(owners.x, warp_) | EqualBytes(owners.y, warp_) << 4 | EqualBytes(owners.z, warp_) << 8 |
                    EqualBytes(owners.w, warp_) << 12;
    const uint32_t count = __popc(mine);
    uint32_t end = count;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const uint32_t before = __shfl_up_sync(0xffffffffu, end, distance);
      if (lane_ >= distance) end += before;
    }
    for (uint32_t place = end - count; mine != 0; ++place, mine &= mine - 1) {
      list_[place] = static_cast<uint16_t>(lane_ * 16 + __ffs(static_cast<int>(mine)) - 1);
    }
    __syncwarp();
    return __shfl_sync(0xffffffffu, end, 31);
  }

  const BackwardParams& params_;
  uint32_t warp_;
  uint32_t lane_;
  int32_t column_;
  uint16_t* list_;
  float4* sums_;  // row r is at r * 32
};

// A thread block computes 128 columns of the gradients of some tiles of one document's tokens.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kOwnerThreads, 1)
    DocumentGradientsKernel(const __grid_constant__ BackwardParams params, int32_t tile_tokens) {
  extern __shared__ OwnerShared shared[];
  const maxsim_tokens& documents = params.problem.documents;
  const uint32_t document = blockIdx.x;
  // Rows of padding are included, and get zeros.
  const auto num_tokens =
      static_cast<int32_t>(documents.layout == MAXSIM_PADDED ? documents.max_tokens : NumRows(documents, document));
  for (int32_t first_token = static_cast<int32_t>(blockIdx.z) * tile_tokens; first_token < num_tokens;
       first_token += static_cast<int32_t>(gridDim.z) * tile_tokens) {
    const int32_t num_rows = min(tile_tokens, num_tokens - first_token);
    RowOwner<T, kAligned> owner(params, shared);
    owner.Clear(static_cast<uint32_t>(num_rows));
    EntryReader reader(params, document, first_token, num_rows);
    const uint32_t num_rounds = reader.num_rounds();
    for (uint32_t i = 0; i < num_rounds; ++i) {
      Round* const round = &shared->rounds[i % 2];
      reader.Write(round);
      // After this barrier the round is complete, and no warp uses the previous round any more.
      __syncthreads();
      owner.Add(*round);
    }
    owner.Write(static_cast<uint32_t>(num_rows), FirstRow(documents, document) + first_token);
    __syncthreads();  // all warps are done with the last rounds, which the next tile overwrites
  }
}

template <class T>
cudaError_t LaunchOfType(const BackwardParams& params, cudaStream_t stream) {
  const auto kernel = params.aligned ? DocumentGradientsKernel<T, true> : DocumentGradientsKernel<T, false>;
  const maxsim_tokens& documents = params.problem.documents;
  const bool any_entry = NumEntries(params.problem) > 0;
  cudaError_t error = cudaSuccess;
  // Zeroes all rows if thread blocks may not write all of them: without entries of the argmax no thread block runs, and
  // in a layout that is not padded, rows may belong to no document.
  if (!any_entry || documents.layout != MAXSIM_PADDED) {
    error = cudaMemsetAsync(params.document_gradients, 0,
                            static_cast<size_t>(documents.num_rows) * static_cast<size_t>(documents.dim) * sizeof(T),
                            stream);
  }
  if (error != cudaSuccess || !any_entry || documents.max_tokens == 0) return error;
  int device = 0;
  int shared_bytes = 0;
  error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  // Allows the device's maximum instead of the bytes that this call needs, because another thread may be launching the
  // same kernel with more.
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return error;
  const int64_t most_tokens = (shared_bytes - static_cast<int64_t>(sizeof(OwnerShared))) / kSumsBytes;
  // Documents of a packed matrix may be much shorter than max_tokens. So each document gets thread blocks for twice the
  // mean length. If it is longer, each of its thread blocks computes several of its tiles. With more thread blocks,
  // most would have no tile. Larger tiles would reserve shared memory that most documents do not use.
  const int64_t length = documents.layout == MAXSIM_PADDED
                             ? documents.max_tokens
                             : std::clamp<int64_t>(2 * MeanTokens(documents), 1, documents.max_tokens);
  const int64_t num_tiles = (length + most_tokens - 1) / most_tokens;
  const int64_t tile_tokens = (length + num_tiles - 1) / num_tiles;
  const auto num_blocks = static_cast<unsigned>(documents.num_sequences);
  const auto num_parts = static_cast<unsigned>((documents.dim + kBackwardColumns - 1) / kBackwardColumns);
  return cuda::LaunchKernel(kernel, dim3(num_blocks, num_parts, static_cast<unsigned>(num_tiles)), dim3(kOwnerThreads),
                            sizeof(OwnerShared) + static_cast<size_t>(tile_tokens * kSumsBytes), stream, params,
                            static_cast<int32_t>(tile_tokens));
}

}  // namespace

cudaError_t LaunchDocumentGradients(const BackwardParams& params, cudaStream_t stream) {
  return WithFloatType(params.problem.queries.type,
                       [&](auto zero) { return LaunchOfType<decltype(zero)>(params, stream); });
}

}  // namespace maxsim::library
