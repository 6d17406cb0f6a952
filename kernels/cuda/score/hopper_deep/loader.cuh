// The loading warp of the deep kernels (for token vectors of 257 to 2,048 bytes). The warp goes through the thread
// block's documents, and keeps the ring in shared memory full of their rows, one chunk of columns at a time.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/ptx/tensor_copy.cuh"
#include "kernels/cuda/score/hopper_common/tile_filler.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/cuda/score/hopper_deep/params.h"
#include "kernels/cuda/score/hopper_deep/ring.cuh"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, ScoreTile kTile>
class DeepLoader {
  using Ring = DeepRing<kTile>;
  using Filler = TileFiller<kType == ScalarType::kI8, kDeepTokens, TileOctets(kDeepTokens), /*kLasts=*/true>;
  static constexpr int kSides = Ring::kSides;
  static constexpr uint32_t kBothWarpgroups = TileHeader::kWarpgroup0 | TileHeader::kWarpgroup1;
  static constexpr int kChunkColumns = kDeepChunkBytes / static_cast<int>(SizeOf(kType));
  static constexpr int kOctetBytes = kOctetTokens * kDeepChunkBytes;

 public:
  __device__ __forceinline__ DeepLoader(const DeepParams& params, const DocumentMaps& documents,
                                        const QueryMap& queries, const Ring& ring, const WorkUnitSlot& slot, int lane)
      : p_(params), documents_(documents), queries_(queries), ring_(ring), slot_(slot), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    if (lane_ == 0) PrefetchMap(queries_.rows);
    if (lane_ < DocumentMaps::kOctets) PrefetchMap(documents_.octets[lane_]);
    Filler filler(p_, slot_, lane_);
    uint32_t new_rows = 0;  // 0: the multiplying warps take the first row tile's rows unasked
    do {
      first_query_tile_ = static_cast<int32_t>(p_.row_tiles[filler.row_tile()].first_row / kQueryTileTokens);
      rows_loaded_ = false;
      while (LoadTile(filler, new_rows)) new_rows = 0;
      new_rows = TileHeader::kNewRows;
    } while (filler.NextRowTile());
    WaitForStage();
#pragma unroll
    for (int s = 0; s < kSides; ++s) {
      if (lane_ == 0) TileHeader{}.Store(ring_.Entry(entry_, s));
    }
    Arrive(ring_.Full(at_.stage));
  }

 private:
  // Loads the next tile of every side (warpgroup that has token tiles of its own). Returns false if the row tile has no
  // documents left.
  __device__ __forceinline__ bool LoadTile(Filler& filler, uint32_t new_rows) {
    WaitForStage();
    int32_t pieces[kSides], octets_of_tiles = 0;
    PieceNote mine[kSides];  // a lane copies a piece
#pragma unroll
    for (int s = 0; s < kSides; ++s) {
      TileHeader header = filler.Fill(open_[s], ring_.Entry(entry_, s), ring_.Notes(s));
      pieces[s] = header.pieces;
      if (lane_ < header.pieces) mine[s] = PieceNote::Load(ring_.Notes(s), lane_);
      octets_of_tiles += header.octets;
      header.flags = kBothWarpgroups | new_rows;
      if (lane_ == 0) header.Store(ring_.Entry(entry_, s));
    }
    if (octets_of_tiles == 0) return false;
    const uint32_t bytes = (p_.query_resident != 0 ? 0 : Ring::kQueryBytes) + octets_of_tiles * kOctetBytes;
    for (int32_t chunk = 0; chunk < p_.num_chunks; ++chunk) {
      WaitForStage();
      const bool take_rows = p_.query_resident != 0 && !rows_loaded_;
      rows_loaded_ = true;
      if (take_rows) WaitForEmptyRing();
      const uint32_t full = ring_.Full(at_.stage);
      if (lane_ == 0) {
        ArriveExpecting(full, bytes + (take_rows ? p_.num_chunks * Ring::kQueryBytes : 0));
        if (take_rows) {
          for (int32_t i = 0; i < p_.num_chunks; ++i) CopyQuery(ring_.ResidentQuery(i), i, full);
        }
        if (p_.query_resident == 0) CopyQuery(ring_.StreamedQuery(at_.stage), chunk, full);
      }
      __syncwarp();  // from here on the barrier expects the bytes of the copies
#pragma unroll
      for (int s = 0; s < kSides; ++s) {
        if (lane_ < pieces[s]) CopyPiece(ring_.Tokens(at_.stage, s), mine[s], chunk, full);
      }
      if (lane_ != 0) Arrive(full);
      at_.Advance(p_.stages);
    }
    entry_ = (entry_ + 1) % kDeepTileEntries;
#pragma unroll
    for (int s = 0; s < kSides; ++s) filler.LookAhead(open_[s]);
    return true;
  }

  // Waits until the multiplying warps are done with the chunk that was in this stage before.
  __device__ __forceinline__ void WaitForStage() const { WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1); }

  // Waits until no resident chunk is being read.
  __device__ __forceinline__ void WaitForEmptyRing() const {
    DeepPlace place = at_;
    for (int32_t i = 0; i < p_.stages; ++i) {
      WaitBarrier(ring_.Empty(place.stage), place.parity ^ 1);
      place.Advance(p_.stages);
    }
  }

  __device__ __forceinline__ void CopyQuery(uint32_t target, int32_t chunk, uint32_t full) const {
    CopyBox(target, queries_.rows, chunk * kChunkColumns, 0, 0, first_query_tile_, full);
    CopyBox(target + Ring::kSetBytes, queries_.rows, chunk * kChunkColumns, 0, 1, first_query_tile_, full);
  }

  // Copies a piece as one box, or as two.
  __device__ __forceinline__ void CopyPiece(uint32_t tokens, const PieceNote& piece, int32_t chunk,
                                            uint32_t full) const {
    constexpr int32_t kMaxBoxOctets = DocumentMaps::kOctets;
    static_assert(TileOctets(kDeepTokens) <= 2 * kMaxBoxOctets && TileOctets(kDeepTokens) <= 32);
    uint32_t target = tokens + piece.first * kOctetBytes;
    int32_t row = piece.row, octets = piece.octets;
    if (octets > kMaxBoxOctets) {
      CopyBox(target, documents_.octets[kMaxBoxOctets - 1], chunk * kChunkColumns, row, full);
      target += kMaxBoxOctets * kOctetBytes;
      row += kMaxBoxOctets * kOctetTokens;
      octets -= kMaxBoxOctets;
    }
    if (octets > 0) CopyBox(target, documents_.octets[octets - 1], chunk * kChunkColumns, row, full);
  }

  const DeepParams& p_;
  const DocumentMaps& documents_;
  const QueryMap& queries_;
  const Ring& ring_;
  const WorkUnitSlot& slot_;
  const int lane_;
  DeepPlace at_;
  int32_t entry_ = 0;
  int32_t first_query_tile_ = 0;  // of the row tile, in the stacked queries
  bool rows_loaded_ = false;      // into the resident chunks, where there are such
  OpenDocument open_[kSides];
};

}  // namespace maxsim::cuda::sm90
