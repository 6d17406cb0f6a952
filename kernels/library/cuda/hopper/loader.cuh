// The warp that loads tiles of documents and finds out which of their tokens count.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/ptx/tensor_copy.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/hopper/ring.cuh"
#include "kernels/library/cuda/hopper_forward.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

namespace sm90 = cuda::sm90;

// The loading warp.
template <ScalarType kType, int kHalves, bool kTokenScales, class Shared>
class HopperLoader {
  static constexpr bool kSequenceScales = kType == ScalarType::kI8 && !kTokenScales;

 public:
  __device__ __forceinline__ HopperLoader(const HopperForwardParams& params, const HopperPart& part, uint32_t base)
      : p_(params), part_(part), ring_(base), lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void Run() {
    Document next = At(part_.begin);
    for (int64_t place = part_.begin; place < part_.end; ++place) {
      const Document document = next;
      // Looks up the next document already now, so that loading its tiles need not wait.
      if (place + 1 < part_.end) next = At(place + 1);
      int32_t first = 0;
      do {
        Load(document, place, first);
        first += kHopperTokens;
      } while (first < document.length);
    }
    End();
  }

 private:
  struct Document {
    int64_t first_row = 0;
    int32_t length = 0;
    float scale = 1;  // with kSequenceScales
  };

  __device__ __forceinline__ Document At(int64_t place) const {
    const DeviceProblem& problem = p_.forward.problem;
    const int64_t document =
        problem.pairing == MAXSIM_ALL ? place : DocumentAt(problem, part_.list * problem.list_length + place);
    return {FirstRow(problem.documents, document), NumRows(problem.documents, document),
            kSequenceScales ? problem.documents.scales[document] : 1.0f};
  }

  // A document without rows has one tile, in which every token is masked.
  __device__ __forceinline__ void Load(const Document& document, int64_t place, int32_t first) {
    sm90::WaitBarrier(ring_.Empty(), ring_.parity() ^ 1);
    const int64_t row = document.first_row + first;
    const int32_t num_tokens = max(0, min(kHopperTokens, document.length - first));
    if (lane_ == 0) {
      constexpr int32_t kBoxBytes = kHopperBoxTokens * kHopperHalfBytes;
      // Loads only the boxes (parts of a tile) that the multiplying warps read: those up to the last token, but at
      // least one.
      const int32_t num_boxes = max(1, (num_tokens + kHopperBoxTokens - 1) / kHopperBoxTokens);
      sm90::ArriveExpecting(ring_.Full(), static_cast<uint32_t>(num_boxes * kHalves * kBoxBytes));
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        for (int32_t box = 0; box < num_boxes; ++box) {
          sm90::CopyBox(ring_.Tokens() + half * kHopperTokens * kHopperHalfBytes + box * kBoxBytes, p_.documents,
                        half * (kHopperHalfBytes / static_cast<int32_t>(SizeOf(kType))),
                        static_cast<int32_t>(row) + box * kHopperBoxTokens, ring_.Full());
        }
      }
    }
    HopperTile tile{};
    const uint8_t* const mask = p_.forward.problem.documents.mask;
#pragma unroll
    for (int word = 0; word < kHopperTokens / 32; ++word) {
      const int32_t token = word * 32 + lane_;
      const bool counts = first + token < document.length && (mask == nullptr || mask[row + token] != 0);
      tile.counts[word] = __ballot_sync(0xffffffffu, counts);
    }
    if constexpr (kSequenceScales) {
      if (lane_ == 0) sm90::StoreShared(ring_.Scales(), document.scale);
    }
    if constexpr (kTokenScales) {
      const float* const scales = p_.forward.problem.documents.scales + row;
      // The loop is not unrolled, because the loading warp has few registers.
#pragma unroll 1
      for (int32_t token = lane_; token < num_tokens; token += 32) {
        sm90::StoreShared(ring_.Scales() + token * sizeof(float), scales[token]);
      }
      __syncwarp();  // all scales are written before the first lane describes the tile
    }
    tile.first_token = first;
    tile.num_tokens = num_tokens;
    tile.flags = first + kHopperTokens >= document.length ? HopperTile::kLastOfDocument : 0;
    tile.place = place;
    Describe(tile);
  }

  __device__ __forceinline__ void End() {
    sm90::WaitBarrier(ring_.Empty(), ring_.parity() ^ 1);
    if (lane_ == 0) sm90::Arrive(ring_.Full());
    HopperTile tile{};
    tile.flags = HopperTile::kEndOfWork;
    Describe(tile);
  }

  __device__ __forceinline__ void Describe(const HopperTile& tile) {
    if (lane_ == 0) {
      const uint32_t address = ring_.Tile();
      sm90::StoreShared(address, tile.counts[0], tile.counts[1], tile.counts[2],
                        static_cast<uint32_t>(tile.first_token));
      sm90::StoreShared(address + 16, tile.flags, static_cast<uint32_t>(tile.num_tokens),
                        static_cast<uint32_t>(tile.place), static_cast<uint32_t>(tile.place >> 32));
      sm90::Arrive(ring_.Full());
    }
    ring_.Advance();
  }

  const HopperForwardParams& p_;
  const HopperPart& part_;
  HopperRing<Shared> ring_;
  const int lane_;
};

}  // namespace maxsim::library
