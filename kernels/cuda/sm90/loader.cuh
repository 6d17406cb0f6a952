// The loading warp: walks the block's documents and keeps the ring of token tiles full.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/document_maps.h"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/tensor_copy.cuh"
#include "kernels/cuda/sm90/tile_filler.cuh"
#include "kernels/cuda/sm90/token_tile.cuh"
#include "kernels/plan.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// The ring in shared memory, for rows of kHalves times 128 bytes. Addresses are of the shared state space.
template <int kHalves>
class Ring {
 public:
  static constexpr int kStages = WideStages(kHalves);
  static constexpr WideLayout kLayout = WideLayoutOf(kHalves);

  __device__ __forceinline__ explicit Ring(uint32_t base) : base_(base) {}

  // Per half of the columns, kWideTokens swizzled rows of 128 bytes.
  __device__ __forceinline__ uint32_t Tile(int stage) const { return base_ + stage * kLayout.stage_bytes; }
  __device__ __forceinline__ uint32_t Entry(int stage) const {
    return base_ + kLayout.entries + stage * TileEntryBytes(kWideTokens);
  }
  __device__ __forceinline__ uint32_t Notes() const { return base_ + kLayout.notes; }
  __device__ __forceinline__ uint32_t Full(int stage) const { return base_ + kLayout.full + stage * 8; }
  __device__ __forceinline__ uint32_t Empty(int stage) const { return base_ + kLayout.empty + stage * 8; }

 private:
  uint32_t base_;
};

// A place in the ring, as every warp keeps its own.
template <int kStages>
struct RingPlace {
  int32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void Advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

template <ScalarType kType, int kHalves>
class Loader {
  static constexpr int kHalfColumns = kWideHalfBytes / static_cast<int>(SizeOf(kType));
  static constexpr int kGroupBytes = kGroupTokens * kWideHalfBytes;  // of a half

 public:
  __device__ __forceinline__ Loader(const ScoreParams& params, const DocumentMaps& maps, Ring<kHalves> ring, int lane)
      : p_(params), maps_(maps), ring_(ring), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    if (lane_ < DocumentMaps::kGroups) PrefetchMap(maps_.groups[lane_]);
    Filler filler(p_, lane_);
    // Tiles for both warpgroups, or for one and the other in turn. Each such stream has its own documents.
    OpenDocument open, open_of_other;
    const int streams = p_.documents_in_turn ? 2 : 1;
    uint32_t warpgroups = p_.documents_in_turn ? 1 : 3;
    uint32_t told = 3;  // warpgroups that know of the row tile: they begin with the first
    do {
      for (int idle = 0; idle < streams;) {
        idle = LoadTile(filler, open, warpgroups, told) ? 0 : idle + 1;
        if (streams == 1) continue;
        const OpenDocument other = open_of_other;
        open_of_other = open;
        open = other;
        warpgroups ^= 3;
      }
      told = 0;
    } while (filler.NextRowTile());
    filler.Finish();
    WaitForStage();
    if (lane_ != 0) return;
    TileHeader{}.Store(ring_.Entry(at_.stage));
    Arrive(ring_.Full(at_.stage));
  }

 private:
  using Filler = TileFiller<kType == ScalarType::kI8, kWideTokens>;

  // Loads a tile for the warpgroups of the mask, false when there is nothing left of the row tile.
  __device__ __forceinline__ bool LoadTile(Filler& filler, OpenDocument& open, uint32_t warpgroups, uint32_t& told) {
    WaitForStage();
    const uint32_t full = ring_.Full(at_.stage), entry = ring_.Entry(at_.stage);
    TileHeader header = filler.Fill(open, entry, ring_.Notes());
    if (header.groups == 0) return false;
    header.flags = warpgroups | ((told & warpgroups) == warpgroups ? 0 : TileHeader::kNewRows);
    told |= warpgroups;
    if (lane_ == 0) {
      header.Store(entry);
      ArriveExpecting(full, header.groups * kGroupBytes * kHalves);
      for (int i = 0; i < header.pieces; ++i) {
        const PieceNote piece = PieceNote::Load(ring_.Notes(), i);
        const uint32_t target = ring_.Tile(at_.stage) + piece.first * kGroupBytes;
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          CopyBox(target + half * kWideTokens * kWideHalfBytes, maps_.groups[piece.groups - 1], half * kHalfColumns,
                  piece.row, full);
        }
      }
    }
    __syncwarp();  // the notes have been read
    at_.Advance();
    return true;
  }

  // Until the multiplying warps are done with the tile before.
  __device__ __forceinline__ void WaitForStage() const { WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1); }

  const ScoreParams& p_;
  const DocumentMaps& maps_;
  const Ring<kHalves> ring_;
  const int lane_;
  RingPlace<Ring<kHalves>::kStages> at_;
};

}  // namespace maxsim::cuda::sm90
