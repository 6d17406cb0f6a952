// The loading warp of the deep kernels: walks the block's documents and keeps the ring of chunks full.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/deep_ring.cuh"
#include "kernels/cuda/sm90/document_maps.h"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/ptx/tensor_copy.cuh"
#include "kernels/cuda/sm90/tile_word.cuh"
#include "kernels/cuda/sm90/work_queue.cuh"
#include "kernels/deep_layout.h"

namespace maxsim::cuda::sm90 {

template <ScoreTile kTile>
class DeepLoader {
  using Ring = DeepRing<kTile>;
  static constexpr int kStreams = Ring::kStreams;
  static constexpr uint32_t kBothWarpgroups = 3;

 public:
  __device__ __forceinline__ DeepLoader(const ScoreParams& params, const DocumentMaps& documents,
                                        const QueryMap& queries, const Ring& ring, int lane)
      : p_(params), documents_(documents), queries_(queries), ring_(ring), lane_(lane) {
    Enter(static_cast<int32_t>(blockIdx.x % params.num_row_tiles));  // what the multiplying warps begin with
  }

  __device__ __forceinline__ void Run() {
    if (lane_ == 0) {
      PrefetchMap(queries_.rows);
      PrefetchMap(documents_.rows[2]);
    }
    WorkQueue queue(p_, lane_);
    ForEachChunk</*kScales=*/false>(queue, [this](const Chunk& chunk) { LoadDocuments(chunk); });
    LoadRest();
    queue.Finish();
    End();
  }

 private:
  // A document under way; nothing is left of it where there is none.
  struct Document {
    int32_t row = 0;  // of the next tile
    int32_t left = 0;
    int32_t tile_tokens = 0;
    uint32_t position = 0;
  };

  __device__ __forceinline__ void Enter(int32_t row_tile) {
    row_tile_ = row_tile;
    first_block_ = static_cast<int32_t>(p_.row_tiles[row_tile].first_row / kBlockTokens);
  }

  __device__ __forceinline__ void LoadDocuments(const Chunk& chunk) {
    if (chunk.row_tile != row_tile_) {
      LoadRest();
      Enter(chunk.row_tile);
      told_ = 0;
      rows_loaded_ = false;
    }
    const int32_t begin = static_cast<int32_t>(chunk.begin);
    const int32_t num_tokens = static_cast<int32_t>(chunk.end - chunk.begin);
    for (int i = 0; i < chunk.count; ++i) {
      Document document;
      document.row = __shfl_sync(0xffffffffu, begin, i);
      document.left = __shfl_sync(0xffffffffu, num_tokens, i);
      // Tiles of about the same size, so that none is tiny.
      const int32_t tiles = (document.left + p_.tile_tokens - 1) / p_.tile_tokens;
      document.tile_tokens = ((document.left + tiles - 1) / tiles + kTokenGrain - 1) / kTokenGrain * kTokenGrain;
      document.position = static_cast<uint32_t>(chunk.position + i);
      // One stream at least has none.
      if (kStreams == 1 || streams_[0].left == 0) {
        streams_[0] = document;
      } else {
        streams_[kStreams - 1] = document;
      }
      while (streams_[0].left > 0 && streams_[kStreams - 1].left > 0) LoadTile();
    }
  }

  // Loads what is left of the documents under way.
  __device__ __forceinline__ void LoadRest() {
    while (streams_[0].left > 0 || streams_[kStreams - 1].left > 0) LoadTile();
  }

  // Loads the next tile of every stream.
  __device__ __forceinline__ void LoadTile() {
    int32_t tokens[kStreams];
    uint32_t words[kStreams];
    uint32_t bytes = p_.query_resident != 0 ? 0 : Ring::kQueryBytes;
#pragma unroll
    for (int s = 0; s < kStreams; ++s) {
      tokens[s] = min(streams_[s].left, streams_[s].tile_tokens);
      const bool any = tokens[s] > 0;
      words[s] = TileWord::Pack(tokens[s], any && tokens[s] == streams_[s].left, any && (told_ >> s & 1) == 0,
                                kBothWarpgroups);
      if (any) told_ |= 1u << s;
      bytes += Boxes(tokens[s]) * kBoxRows * kDeepChunkBytes;
    }
    for (int32_t chunk = 0; chunk < p_.num_chunks; ++chunk) {
      WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1);
      const bool take_rows = p_.query_resident != 0 && !rows_loaded_;
      rows_loaded_ = true;
      if (take_rows) WaitForEmptyRing();
      if (lane_ == 0) {
        const uint32_t full = ring_.Full(at_.stage);
        if (chunk == 0) {
#pragma unroll
          for (int s = 0; s < kStreams; ++s) {
            StoreShared(ring_.Entry(entry_, s), words[s], streams_[s].position, row_tile_, 0);
          }
        }
        ArriveExpecting(full, bytes + (take_rows ? p_.num_chunks * Ring::kQueryBytes : 0));
        if (take_rows) {
          for (int32_t i = 0; i < p_.num_chunks; ++i) CopyQuery(ring_.ResidentQuery(i), i, full);
        }
        if (p_.query_resident == 0) CopyQuery(ring_.StreamedQuery(at_.stage), chunk, full);
#pragma unroll
        for (int s = 0; s < kStreams; ++s) {
          CopyTokens(ring_.Tokens(at_.stage, s), chunk, streams_[s].row, Boxes(tokens[s]), full);
        }
      }
      __syncwarp();
      at_.Advance(p_.stages);
    }
    entry_ = (entry_ + 1) % kDeepTileEntries;
#pragma unroll
    for (int s = 0; s < kStreams; ++s) {
      streams_[s].row += tokens[s];
      streams_[s].left -= tokens[s];
    }
  }

  // Until no resident chunk is being read.
  __device__ __forceinline__ void WaitForEmptyRing() const {
    DeepPlace place = at_;
    for (int32_t i = 0; i < p_.stages; ++i) {
      WaitBarrier(ring_.Empty(place.stage), place.parity ^ 1);
      place.Advance(p_.stages);
    }
  }

  static __device__ __forceinline__ int32_t Boxes(int32_t tokens) { return (tokens + kBoxRows - 1) / kBoxRows; }

  __device__ __forceinline__ void CopyQuery(uint32_t target, int32_t chunk, uint32_t full) const {
    const int32_t column = chunk * (kDeepChunkBytes / 2);
    CopyBox(target, queries_.rows, column, 0, 0, first_block_, full);
    CopyBox(target + Ring::kSetBytes, queries_.rows, column, 0, 1, first_block_, full);
  }

  // Copies rows of a document as one box, or as two.
  __device__ __forceinline__ void CopyTokens(uint32_t target, int32_t chunk, int32_t row, int32_t boxes,
                                             uint32_t full) const {
    constexpr int32_t kFirst = 3;
    static_assert(kDeepTokens <= 2 * kFirst * kBoxRows && 2 * kFirst * kBoxRows - kWideTokens <= kFirst * kBoxRows);
    const int32_t column = chunk * (kDeepChunkBytes / 2);
    if (boxes * kBoxRows > kWideTokens) {
      CopyBox(target, documents_.rows[kFirst - 1], column, row, full);
      target += kFirst * kBoxRows * kDeepChunkBytes;
      row += kFirst * kBoxRows;
      boxes -= kFirst;
    }
    if (boxes > 0) CopyBox(target, documents_.rows[boxes - 1], column, row, full);
  }

  __device__ __forceinline__ void End() {
    WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1);
    if (lane_ != 0) return;
#pragma unroll
    for (int s = 0; s < kStreams; ++s) StoreShared(ring_.Entry(entry_, s), 0, 0, 0, 0);
    Arrive(ring_.Full(at_.stage));
  }

  const ScoreParams& p_;
  const DocumentMaps& documents_;
  const QueryMap& queries_;
  const Ring& ring_;
  const int lane_;
  DeepPlace at_;
  int32_t entry_ = 0;
  int32_t row_tile_ = 0;
  int32_t first_block_ = 0;   // of the row tile, in the stacked queries
  uint32_t told_ = 3;         // streams whose warpgroups know of row_tile_
  bool rows_loaded_ = false;  // into the resident chunks, where there are such
  Document streams_[kStreams];
};

}  // namespace maxsim::cuda::sm90
