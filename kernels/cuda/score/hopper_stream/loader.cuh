// The loading warp of a stream kernel: cuts the block's documents into token tiles and keeps the ring (the pipeline in
// shared memory) full of them.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/bulk_copy.cuh"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/hopper_stream/ring.cuh"
#include "kernels/cuda/score/hopper_stream/share.cuh"
#include "kernels/cuda/score/hopper_stream/team.cuh"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda::sm90 {

// The named barrier at which the loading warp waits before it uses the ring. The other warps initialise the ring and
// then arrive at the barrier without waiting.
inline constexpr int kRingMade = 1;

// The loading warp. With kSharedQuery, it also copies the query rows into shared memory. With kScales, documents have
// scales. With kTeams, thread blocks form teams.
template <bool kSharedQuery, bool kScales, bool kTeams>
class StreamLoader {
 public:
  __device__ __forceinline__ StreamLoader(const StreamParams& params, const StreamRing& ring, int lane)
      : p_(params), ring_(ring), lane_(lane) {}

  // The code before the first copies is short and lies in the order in which it runs. If the device ran other kernels
  // before, each jump over a few hundred bytes of code waits for instructions to be loaded, which takes as long as a
  // read of memory.
  __device__ __forceinline__ void Run() {
    if constexpr (kTeams) {
      LoadTeam();
    } else {
      LoadShare();
    }
    End();
  }

 private:
  // Maximum number of tiles that are begun together, one per lane: 31, not 32, because FreeStages looks for the first
  // lane that has no free stage.
  static constexpr int kBatch = 31;

  // Loads the documents that the thread block is assigned, and those that it claims.
  __device__ __forceinline__ void LoadShare() {
    StreamShare<kTeams> share(p_, lane_);
    StreamWorkUnit placed = share.First(), listed;
    share.ReadOrdinals(placed);
    WaitForRing();
    share.template ReadLocations<kScales>(placed);
    // Handles two work units (up to 32 candidates each) at a time: looks up the documents of one while it loads the
    // other. After the first work unit no copies start for a while, but by then the ring is full and lasts longer.
#pragma unroll 1
    do {
      share.template ReadLocations<kScales>(listed);
      if (placed.count > 0) LoadDocuments(placed, {});
      placed = listed;
      listed = share.Next();
      share.ReadOrdinals(listed);
    } while (placed.count > 0 || listed.count > 0);
    share.Finish();
  }

  // Looks up all documents of the team (thread blocks that share documents) together, and loads the thread block's part
  // of them. In each work unit, the documents that several thread blocks share come first, so that their maxima are
  // combined while others are multiplied.
  __device__ __forceinline__ void LoadTeam() {
    StreamShare<kTeams> share(p_, lane_);
    StreamWorkUnit units[kTeamUnits];
#pragma unroll
    for (int c = 0; c < kTeamUnits; ++c) {
      units[c] = share.NextAssigned();
      share.ReadOrdinals(units[c]);
    }
    WaitForRing();
#pragma unroll
    for (int c = 0; c < kTeamUnits; ++c) share.template ReadLocations<kScales>(units[c]);
    StreamTeam team(p_, lane_);
    team.Take(units);
#pragma unroll 1
    for (int turn = 0; turn < 2 * kTeamUnits; ++turn) {
      const bool whole = turn % 2 != 0;
      const StreamPart part = team.PartOf(units[0]);
      LoadDocuments(units[0], part.IsWhole() == whole ? part : StreamPart{});
      if (!whole) continue;
      team.Leave();
#pragma unroll
      for (int next = 1; next < kTeamUnits; ++next) units[next - 1] = units[next];
    }
  }

  // Waits until the other warps have initialised the ring. The caller has already started to read the ordinals, so that
  // these reads run during the wait. If documents differ in length, also prefetches the first offset, because
  // translating the address of its page may take as long as a read.
  __device__ __forceinline__ void WaitForRing() const {
    if (lane_ == 0 && p_.pattern.document_tokens == 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(p_.offsets));
    asm volatile("barrier.cta.sync %0, %1;" ::"n"(kRingMade), "r"(blockDim.x) : "memory");
  }

  // Writes an entry that ends the work of each warp. One lane does this for all warps, because time no longer matters.
  __device__ __forceinline__ void End() {
#pragma unroll 1
    for (int i = 0; i < ring_.Warps(); ++i) {
      WaitForStage(0);
      if (lane_ == 0) {
        StoreShared(ring_.Entry(stage_), 0, 0, 0, 0);
        Arrive(ring_.Full(stage_));
      }
      __syncwarp();
      Advance(1);
    }
  }

  // Loads the documents of a work unit (up to 32 candidates). One lane could not keep up with the memory, so the work
  // unit's tiles are numbered, and each lane loads one of them. With teams, loads only the `part` of each lane's
  // document. The lanes that have a part are either neighbours, or only two.
  __device__ __forceinline__ void LoadDocuments(const StreamWorkUnit& unit, const StreamPart& part) {
    const int32_t num_tokens = lane_ < unit.count ? static_cast<int32_t>(unit.end - unit.begin) : 0;
    const int32_t num_tiles = kTeams ? part.tiles : (num_tokens + p_.tile_tokens - 1) / p_.tile_tokens;
    const uint32_t parts = kTeams ? __ballot_sync(0xffffffffu, num_tiles > 0) : 0;
    if (kTeams && parts == 0) return;
    if (kSharedQuery && unit.row_tile != row_tile_) LoadQuery(unit.row_tile);
    int32_t end = num_tiles;  // first number of the next document's tiles
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t below = __shfl_up_sync(0xffffffffu, end, distance);
      if (lane_ >= distance) end += below;
    }
    const int32_t total = __shfl_sync(0xffffffffu, end, 31);
    for (int32_t first = 0; first < total;) {
      // Finds the document of tile `number`: counts the documents that end at tile `first` or before, and those that
      // begin after it, up to `number`.
      const int32_t number = first + lane_;
      const int32_t begin = end - num_tiles - first;
      const uint32_t begins =
          __reduce_or_sync(0xffffffffu, num_tiles > 0 && begin > 0 && begin < kBatch ? 1u << begin : 0u);
      const int rank =
          __popc(__ballot_sync(0xffffffffu, num_tiles > 0 && end <= first)) + __popc(begins & ((2u << lane_) - 1));
      const int document = kTeams ? LaneOf(parts, rank) : rank;
      int count = min(total - first, min(kBatch, ring_.Stages()));
      // Stages that were never filled are free.
      if (!fresh_ || stage_ + count > ring_.Stages()) count = FreeStages(count);
      const int64_t row = __shfl_sync(0xffffffffu, unit.begin, document);
      const int32_t tokens = __shfl_sync(0xffffffffu, num_tokens, document);
      const int32_t tiles = __shfl_sync(0xffffffffu, num_tiles, document);
      const float scale = kScales ? __shfl_sync(0xffffffffu, unit.scale, document) : 0.0f;
      const int32_t skipped = kTeams ? __shfl_sync(0xffffffffu, part.skipped, document) : 0;
      const int32_t done = (number - __shfl_sync(0xffffffffu, end, document) + tiles + skipped) * p_.tile_tokens;
      const uint32_t cut = kTeams ? __shfl_sync(0xffffffffu, part.cut.bits, document) : 0;
      if (lane_ < count) {
        if (kTeams && cut != 0) StoreShared(ring_.Cut(Stage(lane_)), cut);
        LoadTile(row + done, min(tokens - done, p_.tile_tokens),
                 {query_phase_ * StreamEntry::kQueryPhase + static_cast<uint32_t>(tiles) * StreamEntry::kTile +
                      (kTeams && cut != 0 ? StreamEntry::kCut : 0),
                  static_cast<uint32_t>(unit.position + document),
                  static_cast<uint32_t>(unit.row_tile) * kStreamSlots + (slot_ + rank) % kStreamSlots,
                  __float_as_uint(scale)});
      }
      __syncwarp();
      Advance(count);
      first += count;
    }
    slot_ = (slot_ + (kTeams ? __popc(parts) : unit.count)) % kStreamSlots;
  }

  // Returns the lane whose document is number `rank` among those in the mask `parts`. The bits of `parts` are either
  // neighbours, or only two.
  static __device__ __forceinline__ int LaneOf(uint32_t parts, int rank) {
    return rank + 1 == __popc(parts) ? 31 - __clz(static_cast<int>(parts)) : __ffs(static_cast<int>(parts)) - 1 + rank;
  }

  // Copies the query rows of a row tile to shared memory. The warp first waits until all stages are free, because the
  // multiplying warps read the previous row tile's rows until they have released its last stage.
  __device__ __forceinline__ void LoadQuery(int32_t row_tile) {
    if (row_tile_ >= 0) {
#pragma unroll 1
      for (int i = 0; i < ring_.Stages(); ++i) WaitForStage(i);
    }
    query_phase_ = row_tile_ >= 0 ? query_phase_ ^ 1 : 0;
    row_tile_ = row_tile;
    if (lane_ == 0) {
      const int32_t bytes = kQueryTileTokens * StreamQueryPitch(p_.row_bytes);
      ArriveExpecting(ring_.QueryFull(), bytes);
      CopyBulk(ring_.Query(), p_.query_rows + int64_t{row_tile} * bytes, bytes, ring_.QueryFull());
    }
    __syncwarp();
  }

  // Returns the stage that comes `ahead` stages after the next one.
  __device__ __forceinline__ int Stage(int ahead) const {
    return stage_ + ahead - (stage_ + ahead >= ring_.Stages() ? ring_.Stages() : 0);
  }

  // Returns the parity of the phase in which Stage(ahead) becomes free.
  __device__ __forceinline__ uint32_t FreeParity(int ahead) const {
    return stage_ + ahead >= ring_.Stages() ? parity_ : parity_ ^ 1;
  }

  __device__ __forceinline__ void WaitForStage(int ahead) const {
    WaitBarrier(ring_.Empty(Stage(ahead)), FreeParity(ahead));
  }

  // Waits until the next pipeline stage is free. Returns how many consecutive stages, from that stage on, are free, at
  // most `most`. Every lane has then waited for all of these stages.
  __device__ __forceinline__ int FreeStages(int most) const {
    while (true) {
      const bool is_free = lane_ < most && TestBarrier(ring_.Empty(Stage(lane_)), FreeParity(lane_));
      const int count = __ffs(static_cast<int>(~__ballot_sync(0xffffffffu, is_free))) - 1;
      if (count == 0) {
        WaitForStage(0);
        continue;
      }
      // The phases of these stages are over, and the test by one lane would be enough. But racecheck accepts only
      // phases that a lane has waited for itself. All stages are tested without a branch in between: with branches the
      // kernel takes 4 % longer (docs/lab/2026-11-24-kernels.md).
      bool are_over = true;
#pragma unroll 4
      for (int i = 0; i < count; ++i) are_over &= TryBarrier(ring_.Empty(Stage(i)), FreeParity(i));
      if (!are_over) continue;
      return count;
    }
  }

  // Fills the lane's stage, which comes `lane` stages after the next one, with `num_tokens` rows.
  __device__ __forceinline__ void LoadTile(int64_t row, int32_t num_tokens, const StreamEntry& entry) {
    const int stage = Stage(lane_);
    const uint32_t bytes = num_tokens * p_.row_bytes;
    StoreShared(ring_.Entry(stage), entry.counts | num_tokens, entry.position, entry.place, entry.scale);
    ArriveExpecting(ring_.Full(stage), bytes);
    const uint8_t* const tile = p_.tokens + row * p_.row_bytes;
    if (p_.read_once != 0) {
      CopyBulkOnce(ring_.Tile(stage), tile, bytes, ring_.Full(stage));
    } else {
      CopyBulk(ring_.Tile(stage), tile, bytes, ring_.Full(stage));
    }
  }

  __device__ __forceinline__ void Advance(int tiles) {
    stage_ += tiles;
    if (stage_ < ring_.Stages()) return;
    stage_ -= ring_.Stages();
    parity_ ^= 1;
    fresh_ = false;
  }

  const StreamParams& p_;
  const StreamRing& ring_;
  const int lane_;
  int stage_ = 0;
  uint32_t parity_ = 0;
  bool fresh_ = true;      // the ring has not been filled completely yet
  uint32_t slot_ = 0;      // slot of the next document
  int32_t row_tile_ = -1;  // the row tile whose rows are in shared memory
  uint32_t query_phase_ = 0;
};

}  // namespace maxsim::cuda::sm90
