// Tests that the parts of every kernel's shared memory are aligned, fit, and do not overlap.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/portable_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/shared_arrays.h"
#include "tests/unit/kernels/plan_fixture.h"

namespace maxsim {
namespace {

TEST(PlanTest, PartsOfSharedMemoryAreAlignedAndDoNotOverlap) {
  for (ScoreTile tile : {ScoreTile::kRows32Narrow, ScoreTile::kRows32, ScoreTile::kRows64, ScoreTile::kRows128}) {
    for (bool resident : {false, true}) {
      for (int64_t row_bytes = 16; row_bytes <= 512; row_bytes += 16) {
        const SharedLayout layout = LayoutOf(tile, resident, false, row_bytes, 3);
        const TileTraits traits = TraitsOf(tile);
        EXPECT_EQ(layout.stages % 16, 0);
        EXPECT_EQ(layout.stage_bytes % 16, 0);
        EXPECT_EQ(layout.table % 16, 0);
        EXPECT_EQ(layout.maxima % 4, 0);
        if (resident) {
          EXPECT_GE(layout.stages, traits.rows * (row_bytes + 16));
        }
        EXPECT_GE(layout.table - layout.stages, 3 * traits.tokens * traits.chunk_bytes);
        EXPECT_GE(layout.maxima - layout.table, kCandidateTableSize * kCandidateTableEntryBytes);
        EXPECT_GE(layout.weights - layout.maxima, 2 * traits.warps_tokens * traits.rows * 4);
        EXPECT_EQ(layout.total - layout.weights, traits.rows * 4);
      }
    }
  }
}

// ldmatrix reads eight rows of 16 bytes at once. Without bank conflicts, they lie in eight different sets of four
// banks.
TEST(PlanTest, EightRowsLieInDifferentBanks) {
  std::vector<int32_t> pitches = {TraitsOf(ScoreTile::kRows32).pitch(), TraitsOf(ScoreTile::kRows128).pitch()};
  for (int64_t row_bytes = 16; row_bytes <= 16384; row_bytes += 16) pitches.push_back(ResidentQueryPitch(row_bytes));
  for (int32_t pitch : pitches) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) banks |= 1u << (row * pitch / 16 % 8);
    EXPECT_EQ(banks, 0xffu) << "pitch " << pitch;
  }
}

TEST(PlanTest, PartsOfADeepRingAreAlignedAndDoNotOverlap) {
  for (ScoreTile tile : {ScoreTile::kDeep128, ScoreTile::kDeep256}) {
    const int32_t query = TraitsOf(tile).rows * kDeepChunkBytes;
    const int32_t tokens = kDeepTokens * kDeepChunkBytes * DeepTilesOfStage(tile);
    for (int32_t row_bytes = 272; row_bytes <= kDeepMaxRowBytes; row_bytes += 16) {
      const DeepShape shape = DeepShapeOf(tile, row_bytes, kHopper.shared_bytes_per_block);
      ASSERT_GE(shape.stages, kDeepMinResidentStages) << row_bytes;
      const DeepLayout layout = DeepLayoutOf(tile, shape, DeepChunks(row_bytes));
      EXPECT_EQ(layout.query % kDeepAlignment, 0);
      EXPECT_GE(layout.query, static_cast<int32_t>(sizeof(DeepHead)));
      EXPECT_EQ(layout.stages % kDeepAlignment, 0);
      EXPECT_EQ(layout.stage_bytes % kDeepAlignment, 0);
      EXPECT_EQ(layout.stages, layout.query + (shape.query_resident ? DeepChunks(row_bytes) * query : 0));
      EXPECT_EQ(layout.stage_bytes, tokens + (shape.query_resident ? 0 : query));
      EXPECT_EQ(layout.total, layout.stages + shape.stages * layout.stage_bytes);
      EXPECT_LE(layout.total, kHopper.shared_bytes_per_block);
    }
  }
  EXPECT_EQ(DeepShapeOf(ScoreTile::kDeep256, 2048, kA10.shared_bytes_per_block).stages, 0);
}

// Checks that the members of WideShared have the alignment that their reads and writes need.
template <int32_t kHalves>
void CheckWideShared() {
  using Shared = WideShared<kHalves>;
  static_assert(std::is_trivially_copyable_v<Shared> && std::is_standard_layout_v<Shared>);
  EXPECT_EQ(offsetof(Shared, tiles), 0u);
  EXPECT_EQ(sizeof(Shared::tiles[0]) % kWideAlignment, 0u);
  EXPECT_EQ(offsetof(Shared, entries) % 16, 0u);
  EXPECT_EQ(sizeof(Shared::entries[0]) % 16, 0u);
  EXPECT_EQ(sizeof(Shared::entries[0]), static_cast<size_t>(kTileHeaderBytes + kWideMostEnds * kTilePieceBytes));
  EXPECT_EQ(sizeof(Shared::notes[0]), static_cast<size_t>(kWideMostEnds * kPieceNoteBytes));
  EXPECT_EQ(offsetof(Shared, scratch) % 16, 0u);
  EXPECT_EQ(offsetof(Shared, weights) % 16, 0u);
  EXPECT_EQ(offsetof(Shared, slot) % 16, 0u);
  EXPECT_EQ(offsetof(Shared, described) % 8, 0u);
  EXPECT_EQ(sizeof(Shared) - offsetof(Shared, described), (4u * WideStages(kHalves) + kUnitBarriers) * 8)
      << "the kernel makes the barriers as one array";
  EXPECT_EQ(WideSharedBytes(kHalves), static_cast<int32_t>(sizeof(Shared)));
  EXPECT_LE(WideSharedBytes(kHalves), kHopper.shared_bytes_per_block);
}

// In the shared memory of the wide kernels, stages (buffers for tiles) begin at multiples of 1,024 bytes, because they
// are swizzled. Barriers begin at multiples of 8.
TEST(PlanTest, PartsOfAWideRingAreAlignedAndFit) {
  CheckWideShared<1>();
  CheckWideShared<2>();
  EXPECT_EQ(WideHalves(4), 1);
  EXPECT_EQ(WideHalves(5), 2);
}

TEST(PlanTest, PartsOfADeepHeadAreAligned) {
  static_assert(std::is_trivially_copyable_v<DeepHead> && std::is_standard_layout_v<DeepHead>);
  EXPECT_EQ(sizeof(DeepHead::entries[0][0]) % 16, 0u);
  EXPECT_EQ(offsetof(DeepHead, notes) % 8, 0u);
  EXPECT_EQ(offsetof(DeepHead, full) % 8, 0u);
  EXPECT_EQ(offsetof(DeepHead, empty) % 8, 0u);
  EXPECT_EQ(offsetof(DeepHead, slot_barriers) % 8, 0u);
  EXPECT_EQ(offsetof(DeepHead, slot) % 16, 0u);
}

// Arrays follow one another directly. There is a gap only if the next array's alignment needs one.
TEST(SharedArraysTest, AnArrayBeginsAtAMultipleOfItsAlignment) {
  SharedArrays arrays(128);
  EXPECT_EQ(arrays.TakeBytes(48, 16), 0);
  EXPECT_EQ(arrays.Take<uint32_t>(3), 48);
  EXPECT_EQ(arrays.Take<uint64_t>(2), 64) << "four bytes are left out";
  EXPECT_EQ(arrays.Take<uint8_t>(1), 80);
  EXPECT_EQ(arrays.TakeBytes(1024, 1024), 1024);
  EXPECT_EQ(arrays.bytes(), 2048);
}

// For every row size that a stream kernel supports, its ring of buffers fits into shared memory. The parts of the ring
// are aligned and do not overlap.
TEST(PlanTest, AStreamRingFitsItsRows) {
  for (int64_t row_bytes = 16; row_bytes <= 8192; row_bytes += 16) {
    SCOPED_TRACE(row_bytes);
    const StreamShape shape = StreamShapeOf(row_bytes);
    EXPECT_EQ(shape.stages > 0, row_bytes <= 4064);
    if (shape.stages == 0) continue;
    const StreamLayout layout = shape.Layout();
    EXPECT_LE(layout.total, kHopper.shared_bytes_per_block);
    EXPECT_EQ(shape.tile_tokens % 8, 0);
    EXPECT_LE(shape.tile_tokens * row_bytes, shape.stage_bytes);
    EXPECT_LT(shape.tile_tokens, 1 << 14) << "a tile's tokens take 14 bits of its entry";
    EXPECT_EQ(shape.stage_bytes % 128, 0);
    EXPECT_GE(shape.stages, kStreamMinStages);
    EXPECT_LE(shape.stages, kStreamSlots);
    EXPECT_GE(shape.warps, 1);
    EXPECT_LE(shape.warps, kStreamMaxWarps);
    EXPECT_EQ(shape.stages % shape.warps, 0) << "a stage is always the same warp's";
    EXPECT_EQ(layout.query, shape.stages * shape.stage_bytes);
    EXPECT_EQ(layout.entries - layout.query, shape.query_bytes);
    EXPECT_EQ(layout.entries % 16, 0);
    EXPECT_EQ(layout.full % 8, 0);
    EXPECT_EQ(layout.empty - layout.full, shape.stages * 8);
    EXPECT_EQ(layout.query_full - layout.empty, shape.stages * 8);
    EXPECT_EQ(layout.maxima % 4, 0);
    EXPECT_EQ(layout.total - layout.maxima, kStreamSlots * (kQueryTileTokens + 1) * 4 + shape.stages * 4);
    EXPECT_EQ(shape.query_bytes,
              row_bytes <= kStreamRegisterRowBytes ? 0 : kQueryTileTokens * StreamQueryPitch(row_bytes));
  }
  // These are the shapes for common row sizes.
  EXPECT_EQ(StreamShapeOf(256).stages, 22);
  EXPECT_EQ(StreamShapeOf(512).stages, 22);
  EXPECT_EQ(StreamShapeOf(512).tile_tokens, 16);
  EXPECT_EQ(StreamShapeOf(512).warps, 11) << "25 stages fit, of which five warps would use all";
  EXPECT_EQ(StreamShapeOf(2 * 448).stages, 12);
  EXPECT_EQ(StreamShapeOf(2 * 448).warps, 6) << "13 fit, and eleven warps would leave two";
  EXPECT_EQ(StreamShapeOf(2 * 768).tile_tokens, 16);
  EXPECT_EQ(StreamShapeOf(2 * 768).stages, 7);
  EXPECT_EQ(StreamShapeOf(2 * 1024).stages, 4);
  EXPECT_EQ(StreamShapeOf(2 * 2032).tile_tokens, 8);
}

// The operands hold each byte of a query tile (32 query rows) exactly once. The 16 bytes of a lane are those that
// mma.sync takes: eight bytes of row lane / 4 and eight of the row 8 below it, the first words of both rows before the
// second words.
TEST(PlanTest, StreamQueryOperandsHoldEveryByteOnce) {
  for (const int32_t row_bytes : {16, 96, 256, 1536}) {
    const int32_t pitch = StreamQueryPitch(row_bytes);
    EXPECT_EQ(pitch % kStepBytes, 0);
    EXPECT_TRUE(pitch >= row_bytes && pitch < row_bytes + kStepBytes);
    std::vector<bool> is_taken(static_cast<size_t>(kQueryTileTokens * pitch));
    for (int32_t row = 0; row < kQueryTileTokens; ++row) {
      for (int32_t byte = 0; byte < pitch; ++byte) {
        const int32_t offset = StreamQueryOffset(row, byte);
        ASSERT_TRUE(offset >= 0 && offset < kQueryTileTokens * pitch) << row << ", " << byte;
        EXPECT_FALSE(is_taken[static_cast<size_t>(offset)]) << row << ", " << byte;
        is_taken[static_cast<size_t>(offset)] = true;
      }
    }
  }
  // This operand is that of k-step 3, upper half, lane 4 * 5 + 2.
  const int32_t operand = ((3 * 2 + 1) * 32 + 22) * 16;
  EXPECT_EQ(StreamQueryOffset(16 + 5, 3 * 32 + 2 * 8), operand);
  EXPECT_EQ(StreamQueryOffset(16 + 8 + 5, 3 * 32 + 2 * 8), operand + 4);
  EXPECT_EQ(StreamQueryOffset(16 + 5, 3 * 32 + 2 * 8 + 4), operand + 8);
  EXPECT_EQ(StreamQueryOffset(16 + 8 + 5, 3 * 32 + 2 * 8 + 4), operand + 12);
}

}  // namespace
}  // namespace maxsim
