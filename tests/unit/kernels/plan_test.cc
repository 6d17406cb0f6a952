// Every call's plan can be launched and covers its work, on devices of several kinds.
#include "kernels/plan/plan_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/score/hopper_common/config.h"
#include "kernels/cuda/score/hopper_deep/config.h"
#include "kernels/cuda/score/hopper_stream/config.h"
#include "kernels/cuda/score/hopper_wide/config.h"
#include "kernels/cuda/score/portable/config.h"
#include "kernels/limits.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/order.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/select.h"
#include "kernels/plan/shares.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

// Multiprocessors, shared memory a block and a multiprocessor, reserved, threads.
constexpr DeviceLimits kA100{108, 166912, 167936, 1024, 2048};
constexpr DeviceLimits kA10{72, 101376, 102400, 1024, 1536};  // compute capability 8.6: the least shared memory
constexpr DeviceLimits kH200{132, 232448, 233472, 1024, 2048};
constexpr DeviceLimits kHopper{132, 232448, 233472, 1024, 2048, /*hopper=*/true};
constexpr DeviceLimits kOrin{8, 166912, 167936, 1024, 1536};
constexpr DeviceLimits kDevices[] = {kA100, kA10, kH200, kHopper, kOrin};

constexpr ScalarType kTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8};
constexpr int32_t kDims[] = {8,   9,   15,  16,  17,  48,  63,   64,   65,   96,   100,  104,  127, 128,
                             129, 256, 300, 384, 512, 768, 1000, 1024, 1025, 1536, 2048, 4095, 4096};

void ExpectLaunchable(const ScorePlan& plan, const DeviceLimits& limits) {
  SCOPED_TRACE(plan.ToString());
  const TileTraits traits = TraitsOf(plan.tile);
  EXPECT_LE(plan.shared_bytes, limits.shared_bytes_per_block);
  EXPECT_LE(plan.blocks_per_sm * (plan.shared_bytes + limits.reserved_shared_bytes), limits.shared_bytes_per_sm);
  EXPECT_LE(plan.blocks_per_sm * plan.threads, limits.max_threads_per_sm);
  EXPECT_GE(plan.blocks_per_sm, 1);
  EXPECT_LE(plan.blocks_per_sm, traits.min_blocks) << "more than the kernel's registers allow";
  if (IsStream(plan.tile)) {
    EXPECT_TRUE(limits.hopper);
    const StreamShape shape = StreamShapeOf(plan.row_bytes);
    EXPECT_EQ(plan.shared_bytes, shape.Layout().total);
    EXPECT_EQ(plan.threads, shape.threads());
    EXPECT_EQ(plan.stages, shape.stages);
    EXPECT_LE(plan.tile_tokens * plan.row_bytes, shape.stage_bytes);
    EXPECT_GE(plan.tile_tokens, plan.row_bytes <= kStreamRegisterRowBytes ? 32 : 8);
    EXPECT_EQ(plan.num_steps, (plan.row_bytes + kStepBytes - 1) / kStepBytes);
    EXPECT_GE(plan.grid(), 1);
    EXPECT_LE(plan.grid(), limits.num_sms);
    return;
  }
  if (IsWide(plan.tile)) {
    EXPECT_TRUE(limits.hopper);
    EXPECT_EQ(plan.shared_bytes, WideLayoutOf(WideHalves(plan.num_steps)).total);
    EXPECT_EQ(plan.stages, WideStages(WideHalves(plan.num_steps)));
    EXPECT_GE(plan.num_chunks * kWideHalfBytes, plan.row_bytes);
    EXPECT_LE(plan.num_steps, 8);
    EXPECT_GE(plan.grid(), 1);
    EXPECT_LE(plan.grid(), limits.num_sms);
    return;
  }
  if (IsDeep(plan.tile)) {
    EXPECT_TRUE(limits.hopper);
    const DeepShape shape{plan.query_resident, plan.stages};
    EXPECT_EQ(plan.shared_bytes, DeepLayoutOf(plan.tile, shape, plan.num_chunks).total);
    EXPECT_GE(plan.stages, kMinStages);
    EXPECT_LE(plan.stages, kDeepMaxStages);
    EXPECT_GE(plan.num_chunks * kDeepChunkBytes, plan.row_bytes);
    EXPECT_LT((plan.num_chunks - 1) * kDeepChunkBytes, plan.row_bytes);
    EXPECT_LE(plan.tile_tokens, kDeepTokens);
    EXPECT_GE(plan.grid(), 1);
    EXPECT_LE(plan.grid(), limits.num_sms);
    return;
  }
  EXPECT_EQ(plan.threads, traits.threads());
  EXPECT_LE(plan.threads, 1024);
  EXPECT_GE(plan.stages, kMinStages);
  EXPECT_LE(plan.stages, kMaxStages);
  EXPECT_EQ(plan.shared_bytes, LayoutOf(plan.tile, plan.query_resident, plan.align, plan.row_bytes, plan.stages).total);

  // Steps and chunks cover a row, and no more than a row.
  EXPECT_GE(plan.num_steps * kStepBytes, plan.row_bytes);
  EXPECT_LT((plan.num_steps - 1) * kStepBytes, plan.row_bytes);
  EXPECT_GE(plan.num_chunks * traits.chunk_bytes, plan.row_bytes);
  EXPECT_LT((plan.num_chunks - 1) * traits.chunk_bytes, plan.row_bytes);

  EXPECT_EQ(plan.chunks_of_piece * traits.chunk_bytes, kPieceColumns * static_cast<int32_t>(SizeOf(plan.type)));
  if (plan.num_chunks > plan.chunks_of_piece && plan.type != ScalarType::kI8) {
    EXPECT_TRUE(plan.tile == ScoreTile::kRows32 || plan.tile == ScoreTile::kRows64) << "no sums for several pieces";
  }

  // The grid is one wave and has work for all its row tiles.
  EXPECT_GE(plan.grid(), 1);
  EXPECT_LE(plan.grid(), limits.num_sms * plan.blocks_per_sm);
  EXPECT_LE(plan.row_tiles_at_once, plan.num_row_tiles);
}

TEST(PlanTest, EveryShapeHasALaunchablePlanOnEveryDevice) {
  for (const DeviceLimits& limits : kDevices) {
    for (ScalarType type : kTypes) {
      for (int32_t dim : kDims) {
        for (int64_t blocks : {1, 2, 3, 4, 5, 32, 128, 2048}) {
          for (int64_t candidates : {int64_t{1}, int64_t{2}, int64_t{1000}, kMaxShardDocuments}) {
            const ScoreGroup groups[] = {{blocks, candidates}, {1, 1}};
            for (const double document_bytes : {0.0, 5000.0}) {
              const absl::StatusOr<ScorePlan> plan = PlanScore(type, dim, groups, limits, document_bytes);
              ASSERT_TRUE(plan.ok()) << plan.status();
              ExpectLaunchable(*plan, limits);
              const int64_t tile_blocks = TraitsOf(plan->tile).blocks();
              EXPECT_EQ(plan->num_row_tiles, (blocks + tile_blocks - 1) / tile_blocks + 1);
            }
            const absl::StatusOr<ScorePlan> align = PlanAlign(type, dim, blocks, candidates, limits);
            ASSERT_TRUE(align.ok()) << align.status();
            ExpectLaunchable(*align, limits);
            EXPECT_EQ(align->num_row_tiles, blocks);
            EXPECT_EQ(TraitsOf(align->tile).blocks(), 1);
          }
        }
      }
    }
  }
}

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

// ldmatrix reads eight rows of 16 bytes at once: they must lie in eight different sets of four banks.
TEST(PlanTest, EightRowsLieInDifferentBanks) {
  std::vector<int32_t> pitches = {TraitsOf(ScoreTile::kRows32).pitch(), TraitsOf(ScoreTile::kRows128).pitch()};
  for (int64_t row_bytes = 16; row_bytes <= 16384; row_bytes += 16) pitches.push_back(ResidentQueryPitch(row_bytes));
  for (int32_t pitch : pitches) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) banks |= 1u << (row * pitch / 16 % 8);
    EXPECT_EQ(banks, 0xffu) << "pitch " << pitch;
  }
}

TEST(PlanTest, ShortQueriesTakeShortTilesAndStackedOnesWideOnes) {
  const auto tile = [](int32_t dim, std::vector<ScoreGroup> groups) {
    return PlanScore(ScalarType::kF16, dim, groups, kH200)->tile;
  };
  EXPECT_EQ(tile(48, {{1, 1000}}), ScoreTile::kRows32Narrow);
  EXPECT_EQ(tile(64, {{1, 1000}}), ScoreTile::kRows32Narrow);
  EXPECT_EQ(tile(65, {{1, 1000}}), ScoreTile::kRows32);
  EXPECT_EQ(tile(128, {{1, 1000}}), ScoreTile::kRows32);
  EXPECT_EQ(tile(128, {{2, 1000}}), ScoreTile::kRows64);
  EXPECT_EQ(tile(128, {{4, 1000}}), ScoreTile::kRows128);
  EXPECT_EQ(tile(128, {{32, 1000}}), ScoreTile::kRows128);
  // 32 short queries with lists of their own have nothing to stack.
  EXPECT_EQ(tile(128, std::vector<ScoreGroup>(32, {1, 1000})), ScoreTile::kRows32);
  EXPECT_EQ(PlanScore(ScalarType::kF32, 128, {{32, 1000}}, kH200)->tile, ScoreTile::kRows32);
}

TEST(PlanTest, HopperStacksUpTo256Rows) {
  const auto tile = [](int32_t dim, std::vector<ScoreGroup> groups) {
    return PlanScore(ScalarType::kF16, dim, groups, kHopper)->tile;
  };
  EXPECT_EQ(tile(48, {{1, 1000}}), ScoreTile::kStream32);
  EXPECT_EQ(tile(128, {{1, 1000}}), ScoreTile::kStream32);
  EXPECT_EQ(tile(128, std::vector<ScoreGroup>(32, {1, 1000})), ScoreTile::kStream32);
  EXPECT_EQ(tile(128, {{2, 1000}}), ScoreTile::kWide128);
  EXPECT_EQ(tile(128, {{4, 1000}}), ScoreTile::kWide128);
  EXPECT_EQ(tile(128, {{8, 1000}}), ScoreTile::kWide256);
  EXPECT_EQ(tile(128, {{32, 1000}}), ScoreTile::kWide256);
  for (int32_t dim : {129, 256, 768, 1024, 2032}) EXPECT_EQ(tile(dim, {{1, 1000}}), ScoreTile::kStream32) << dim;
  EXPECT_EQ(tile(2033, {{1, 1000}}), ScoreTile::kRows32) << "no room for query and ring";
  EXPECT_EQ(PlanScore(ScalarType::kF32, 64, {{32, 1000}}, kHopper)->tile, ScoreTile::kRows32);
  DeviceLimits limits = kHopper;
  limits.tiles = ~(1u << static_cast<uint32_t>(ScoreTile::kWide256));
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 1000}}, limits)->tile, ScoreTile::kWide128);
  // One thread block a multiprocessor, fewer where there are fewer documents and row tiles.
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 1000}}, kHopper)->grid(), kHopper.num_sms);
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 3}}, kHopper)->grid(), 12);
}

// Row tiles read documents once for many blocks of rows, but begin and end later than the stream kernel, which reads
// them once for each.
TEST(PlanTest, HopperStreamsShortCallsOfSeveralBlocks) {
  const auto tile = [](ScalarType type, int32_t dim, ScoreGroup group, int64_t document_tokens,
                       const DeviceLimits& limits = kHopper) {
    const auto document_bytes = static_cast<double>(document_tokens * DeviceRowBytes(type, dim));
    return PlanScore(type, dim, {group}, limits, document_bytes)->tile;
  };
  constexpr ScalarType kF16 = ScalarType::kF16, kI8 = ScalarType::kI8;
  EXPECT_EQ(tile(kF16, 128, {2, 300}, 14), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 128, {2, 300}, 180), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 128, {2, 10000}, 14), ScoreTile::kWide128);
  EXPECT_EQ(tile(kF16, 128, {2, 1000}, 300), ScoreTile::kWide128);
  EXPECT_EQ(tile(kF16, 128, {2, 300}, 0), ScoreTile::kWide128) << "nobody knows how long it takes";
  EXPECT_EQ(tile(kF16, 128, {12, 8}, 290), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 128, {12, 700}, 290), ScoreTile::kWide256);
  EXPECT_EQ(tile(kF16, 128, {/*num_blocks=*/6, 64, /*packed_blocks=*/2}, 60), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 128, {/*num_blocks=*/64, 1000, /*packed_blocks=*/16}, 60), ScoreTile::kWide256);
  // Where thread blocks of the others claim what they score, they take longer.
  EXPECT_EQ(tile(kF16, 128, {2, 132}, 800), ScoreTile::kWide128);
  EXPECT_EQ(tile(kF16, 128, {2, 133}, 800), ScoreTile::kStream32);
  // Half the bytes take half the time; query rows in shared memory take longer.
  EXPECT_EQ(tile(kF16, 128, {4, 700}, 60), ScoreTile::kWide128);
  EXPECT_EQ(tile(kI8, 128, {4, 700}, 60), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 256, {2, 132}, 14), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 256, {2, 132}, 290), ScoreTile::kDeep128);
  EXPECT_EQ(tile(kI8, 768, {2, 8}, 14), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 1500, {2, 8}, 14), ScoreTile::kRows64) << "portable tiles begin as soon";
  DeviceLimits limits = kHopper;
  limits.tiles = ~(1u << static_cast<uint32_t>(ScoreTile::kStream32));
  EXPECT_EQ(tile(kF16, 128, {2, 8}, 14, limits), ScoreTile::kWide128);
  EXPECT_EQ(tile(kF16, 128, {2, 8}, 14, kH200), ScoreTile::kRows64);
}

// What is left of a group of queries is a row tile of half the rows or less, or a whole one.
TEST(PlanTest, WideTilesMayBeHalfOnes) {
  const auto plan = [](const std::vector<ScoreGroup>& groups, ScoreTile tile) {
    DeviceLimits limits = kHopper;
    limits.tiles = 1u << static_cast<uint32_t>(tile);
    return *PlanScore(ScalarType::kF16, 128, groups, limits);
  };
  const auto half_tiles = [&](const std::vector<ScoreGroup>& groups) {
    return plan(groups, ScoreTile::kWide256).num_half_tiles;
  };
  EXPECT_EQ(half_tiles({{8, 1000}}), 0);
  EXPECT_EQ(half_tiles({{9, 1000}}), 1);
  EXPECT_EQ(half_tiles({{12, 1000}}), 1);
  EXPECT_EQ(half_tiles({{13, 1000}}), 0);
  EXPECT_EQ(half_tiles({{12, 1000}, {16, 10}, {1, 5}}), 2);
  EXPECT_EQ(plan({{12, 1000}}, ScoreTile::kWide256).num_row_tiles, 2);
  EXPECT_EQ(plan({{12, 1000}}, ScoreTile::kWide128).num_half_tiles, 3) << "all of them";
  EXPECT_THAT(plan({{12, 1000}}, ScoreTile::kWide256).ToString(), testing::HasSubstr("2 row tiles (1 of half"));
  EXPECT_THAT(plan({{12, 1000}}, ScoreTile::kWide128).ToString(), testing::Not(testing::HasSubstr("of half")));
  // Its time is that of half the rows.
  const std::vector<ScoreGroup> whole = {{8, 1000}}, half = {{4, 1000}}, both = {{12, 1000}};
  const double reads = EstimatedReads(both, ScoreTile::kWide256);
  EXPECT_DOUBLE_EQ(reads, EstimatedReads(whole, ScoreTile::kWide256) + EstimatedReads(half, ScoreTile::kWide128));
}

TEST(PlanTest, HopperTakesWiderRowsByChunks) {
  const auto plan = [](int32_t dim, int64_t blocks) {
    const ScoreGroup group{blocks, 1000};
    return *PlanScore(ScalarType::kF16, dim, {&group, 1}, kHopper);
  };
  EXPECT_EQ(plan(129, 1).tile, ScoreTile::kStream32);
  for (int32_t dim : {129, 256, 768, 1024}) {
    EXPECT_EQ(plan(dim, 2).tile, ScoreTile::kDeep128) << dim;
    EXPECT_EQ(plan(dim, 4).tile, ScoreTile::kDeep128) << dim;
    EXPECT_EQ(plan(dim, 5).tile, ScoreTile::kDeep256) << dim;
    EXPECT_EQ(plan(dim, 32).tile, ScoreTile::kDeep256) << dim;
  }
  EXPECT_EQ(plan(128, 32).tile, ScoreTile::kWide256);
  EXPECT_EQ(plan(1025, 32).tile, ScoreTile::kRows64) << "rows of two pieces";
  EXPECT_EQ(PlanScore(ScalarType::kF32, 768, {{32, 1000}}, kHopper)->tile, ScoreTile::kRows32);
  DeviceLimits no_maps = kHopper;
  no_maps.tensor_maps = false;
  EXPECT_EQ(PlanScore(ScalarType::kF16, 768, {{32, 1000}}, no_maps)->tile, ScoreTile::kRows128);
  // The query tile stays where three stages fit beside it.
  EXPECT_TRUE(plan(256, 8).query_resident);
  EXPECT_EQ(plan(256, 8).stages, 4);
  EXPECT_FALSE(plan(257, 8).query_resident);
  EXPECT_EQ(plan(257, 8).stages, 4);
  EXPECT_TRUE(plan(320, 4).query_resident);
  EXPECT_FALSE(plan(321, 4).query_resident);
  EXPECT_EQ(plan(321, 4).stages, 3);
}

TEST(PlanTest, PartsOfADeepRingAreAlignedAndDoNotOverlap) {
  EXPECT_EQ(kDeepQuery % kDeepAlignment, 0);
  EXPECT_EQ(TileEntryBytes(kDeepMostPieces) % 16, 0);
  EXPECT_EQ(kDeepNotes % 8, 0);
  EXPECT_EQ(kDeepFull % 8, 0);
  EXPECT_EQ(kDeepEmpty % 8, 0);
  for (ScoreTile tile : {ScoreTile::kDeep128, ScoreTile::kDeep256}) {
    const int32_t query = TraitsOf(tile).rows * kDeepChunkBytes;
    const int32_t tokens = kDeepTokens * kDeepChunkBytes * DeepStreams(tile);
    for (int32_t row_bytes = 272; row_bytes <= kDeepMaxRowBytes; row_bytes += 16) {
      const DeepShape shape = DeepShapeOf(tile, row_bytes, kHopper.shared_bytes_per_block);
      ASSERT_GE(shape.stages, kDeepMinResidentStages) << row_bytes;
      const DeepLayout layout = DeepLayoutOf(tile, shape, DeepChunks(row_bytes));
      EXPECT_EQ(layout.stages % kDeepAlignment, 0);
      EXPECT_EQ(layout.stage_bytes % kDeepAlignment, 0);
      EXPECT_EQ(layout.stages, kDeepQuery + (shape.query_resident ? DeepChunks(row_bytes) * query : 0));
      EXPECT_EQ(layout.stage_bytes, tokens + (shape.query_resident ? 0 : query));
      EXPECT_EQ(layout.total, layout.stages + shape.stages * layout.stage_bytes);
      EXPECT_LE(layout.total, kHopper.shared_bytes_per_block);
    }
  }
  EXPECT_EQ(DeepShapeOf(ScoreTile::kDeep256, 2048, kA10.shared_bytes_per_block).stages, 0);
}

// Rows of INT8 are half as wide, and their sums have no pieces.
TEST(PlanTest, QuantizedDocumentsTakeTheTilesOfTheirRowsBytes) {
  const auto tile = [](int32_t dim, std::vector<ScoreGroup> groups, const DeviceLimits& limits) {
    return PlanScore(ScalarType::kI8, dim, groups, limits)->tile;
  };
  EXPECT_EQ(DeviceRowBytes(ScalarType::kI8, 8), 16);
  EXPECT_EQ(DeviceRowBytes(ScalarType::kI8, 16), 16);
  EXPECT_EQ(DeviceRowBytes(ScalarType::kI8, 17), 32);
  EXPECT_EQ(DeviceRowBytes(ScalarType::kI8, 4095), 4096);
  EXPECT_EQ(tile(128, {{1, 1000}}, kH200), ScoreTile::kRows32Narrow);
  EXPECT_EQ(tile(129, {{1, 1000}}, kH200), ScoreTile::kRows32);
  EXPECT_EQ(tile(4096, {{4, 1000}}, kH200), ScoreTile::kRows128);
  EXPECT_EQ(tile(256, {{1, 1000}}, kHopper), ScoreTile::kStream32);
  EXPECT_EQ(tile(256, {{4, 1000}}, kHopper), ScoreTile::kWide128);
  EXPECT_EQ(tile(256, {{8, 1000}}, kHopper), ScoreTile::kWide256);
  EXPECT_EQ(tile(257, {{8, 1000}}, kHopper), ScoreTile::kDeep256);
  EXPECT_EQ(tile(2048, {{4, 1000}}, kHopper), ScoreTile::kDeep128);
  EXPECT_EQ(tile(2049, {{4, 1000}}, kHopper), ScoreTile::kRows128);
  EXPECT_EQ(tile(768, {{1, 1000}}, kHopper), ScoreTile::kStream32);
  EXPECT_EQ(tile(4064, {{1, 1000}}, kHopper), ScoreTile::kStream32);
  EXPECT_EQ(tile(4065, {{1, 1000}}, kHopper), ScoreTile::kRows32) << "no room for a ring";
}

// Short queries over the same documents take fewer row tiles where a kernel can sum them apart.
TEST(PlanTest, ShortQueriesShareBlocksOfWideAndDeepTiles) {
  EXPECT_EQ(PackedRows(1), 8);
  EXPECT_EQ(PackedRows(8), 8);
  EXPECT_EQ(PackedRows(9), 16);
  EXPECT_EQ(PackedRows(16), 16);
  EXPECT_EQ(PackedRows(17), 32);
  EXPECT_EQ(PackedRows(32), 32);
  EXPECT_EQ(PackedRows(33), 40);
  EXPECT_EQ(PackedRows(48), 48);
  EXPECT_EQ(PackedRows(49), 64);
  const ScoreGroup group{/*num_blocks=*/32, /*num_candidates=*/1000, /*packed_blocks=*/8};
  const auto plan = [&group](int32_t dim, const DeviceLimits& limits) {
    return PlanScore(ScalarType::kF16, dim, {group}, limits);
  };
  EXPECT_EQ(plan(128, kHopper)->tile, ScoreTile::kWide256);
  EXPECT_EQ(plan(128, kHopper)->num_row_tiles, 1);
  EXPECT_EQ(plan(256, kHopper)->tile, ScoreTile::kDeep256);
  EXPECT_EQ(plan(256, kHopper)->num_row_tiles, 1);
  EXPECT_EQ(plan(128, kH200)->num_row_tiles, 8);  // of 128 rows each
}

// A block that is shared takes longer to sum, so that a few row tiles less are not worth it.
TEST(PlanTest, BlocksAreSharedWhereThatSavesRowTiles) {
  const auto shares = [](int64_t num_blocks, int64_t packed_blocks, ScoreTile tile) {
    return SharesBlocks({num_blocks, /*num_candidates=*/1000, packed_blocks}, tile);
  };
  EXPECT_TRUE(shares(64, 48, ScoreTile::kWide256));
  EXPECT_TRUE(shares(64, 48, ScoreTile::kDeep256));
  EXPECT_FALSE(shares(504, 473, ScoreTile::kWide256)) << "59.5 row tiles in place of 63";
  EXPECT_TRUE(shares(16, 12, ScoreTile::kWide256)) << "the last one is a half one";
  EXPECT_FALSE(shares(16, 12, ScoreTile::kDeep256)) << "which do not have those";
  EXPECT_FALSE(shares(4, 2, ScoreTile::kWide128));
  EXPECT_TRUE(shares(8, 2, ScoreTile::kWide128));
  EXPECT_FALSE(shares(64, 16, ScoreTile::kStream32));
  EXPECT_FALSE(shares(64, 16, ScoreTile::kRows128));
  EXPECT_EQ(BlocksOf({64, 1000, 48}, ScoreTile::kWide256), 48);
  EXPECT_EQ(BlocksOf({64, 1000, 48}, ScoreTile::kRows128), 64);
  EXPECT_EQ(BlocksOf({64, 1000}, ScoreTile::kWide256), 64);
}

// What the wide kernels' shared memory holds: swizzled stages begin at multiples of 1,024, barriers at multiples of 8.
TEST(PlanTest, PartsOfAWideRingAreAlignedAndFit) {
  for (int32_t halves : {1, 2}) {
    const WideLayout layout = WideLayoutOf(halves);
    EXPECT_EQ(layout.stage_bytes % kWideAlignment, 0);
    EXPECT_EQ(layout.entries, WideStages(halves) * layout.stage_bytes);
    EXPECT_EQ(layout.entries % 16, 0);
    EXPECT_EQ(layout.described % 8, 0);
    EXPECT_EQ(TileEntryBytes(kWideMostEnds) % 16, 0);
    EXPECT_EQ(layout.notes - layout.entries, WideStages(halves) * TileEntryBytes(kWideMostEnds));
    EXPECT_EQ(layout.scratch - layout.notes, WideStages(halves) * kWideMostEnds * kPieceNoteBytes);
    EXPECT_EQ(layout.scratch % 16, 0);
    EXPECT_EQ(layout.weights - layout.scratch, kWideMultipliers * kWideMostEnds * kWideEndBytes);
    EXPECT_EQ(layout.weights % 16, 0);
    EXPECT_EQ(layout.slot - layout.weights, kWideMultipliers * kBlockTokens * 4);
    EXPECT_EQ(layout.slot % 16, 0);
    EXPECT_EQ(layout.described - layout.slot, kChunkSlotBytes);
    EXPECT_EQ(layout.full - layout.described, WideStages(halves) * 8);
    EXPECT_EQ(layout.whole - layout.full, WideStages(halves) * 8);
    EXPECT_EQ(layout.empty - layout.whole, WideStages(halves) * 8);
    EXPECT_EQ(layout.slot_barriers - layout.empty, WideStages(halves) * 8);
    EXPECT_EQ(layout.total - layout.slot_barriers, kChunkBarrierBytes);
    EXPECT_LE(layout.total, kHopper.shared_bytes_per_block);
  }
  EXPECT_EQ(WideHalves(4), 1);
  EXPECT_EQ(WideHalves(5), 2);
}

// Every row that a stream kernel takes has a ring that fits, whose parts are aligned and do not overlap.
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
    EXPECT_EQ(layout.total - layout.maxima, kStreamSlots * (kBlockTokens + 1) * 4 + shape.stages * 4);
    EXPECT_EQ(shape.query_bytes, row_bytes <= kStreamRegisterRowBytes ? 0 : kBlockTokens * StreamQueryPitch(row_bytes));
  }
  // What the widths that matter come to.
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

// Every byte of a block of query rows has its place in the operands, and a lane's 16 bytes are what mma.sync takes: of
// rows lane / 4 and 8 more, eight bytes of each, the first words of both before the second ones.
TEST(PlanTest, StreamQueryOperandsHoldEveryByteOnce) {
  for (const int32_t row_bytes : {16, 96, 256, 1536}) {
    const int32_t pitch = StreamQueryPitch(row_bytes);
    EXPECT_EQ(pitch % kStepBytes, 0);
    EXPECT_TRUE(pitch >= row_bytes && pitch < row_bytes + kStepBytes);
    std::vector<bool> is_taken(static_cast<size_t>(kBlockTokens * pitch));
    for (int32_t row = 0; row < kBlockTokens; ++row) {
      for (int32_t byte = 0; byte < pitch; ++byte) {
        const int32_t offset = StreamQueryOffset(row, byte);
        ASSERT_TRUE(offset >= 0 && offset < kBlockTokens * pitch) << row << ", " << byte;
        EXPECT_FALSE(is_taken[static_cast<size_t>(offset)]) << row << ", " << byte;
        is_taken[static_cast<size_t>(offset)] = true;
      }
    }
  }
  // Step 3, upper half, lane 4 * 5 + 2.
  const int32_t operand = ((3 * 2 + 1) * 32 + 22) * 16;
  EXPECT_EQ(StreamQueryOffset(16 + 5, 3 * 32 + 2 * 8), operand);
  EXPECT_EQ(StreamQueryOffset(16 + 8 + 5, 3 * 32 + 2 * 8), operand + 4);
  EXPECT_EQ(StreamQueryOffset(16 + 5, 3 * 32 + 2 * 8 + 4), operand + 8);
  EXPECT_EQ(StreamQueryOffset(16 + 8 + 5, 3 * 32 + 2 * 8 + 4), operand + 12);
}

// The dealt shares and the claims after them, as the kernel counts them, are all candidates once and in order.
TEST(PlanTest, SharesAndClaimsAreAllCandidatesOnce) {
  for (int32_t num_sms : {1, 7, 132}) {
    DeviceLimits limits = kHopper;
    limits.num_sms = num_sms;
    for (int64_t total : {0, 1, 2, 6, 7, 8, 131, 132, 133, 1000, 2111, 2112, 2113, 10000, 100000, 1 << 30}) {
      for (int64_t mean_tokens : {0, 1, 31, 121, 300, 5000, 65535}) {
        for (const auto& [percent, spread_tokens] :
             std::vector<std::pair<int32_t, int64_t>>{{-1, 0}, {-1, 1000}, {0, 0}, {50, 0}, {99, 1000}, {100, 0}}) {
          const ScorePlan plan = *PlanScore(ScalarType::kF16, 128, {{1, std::max<int64_t>(total, 1)}}, limits);
          const StreamShares shares =
              PlanStreamShares(plan, {total, /*regular=*/0, mean_tokens, spread_tokens}, {percent, -1, -1});
          SCOPED_TRACE(testing::Message() << num_sms << " blocks, mean " << mean_tokens << " + " << spread_tokens
                                          << ", " << percent << " %: " << shares.ToString());
          const int64_t grid = plan.grid();
          EXPECT_EQ(shares.each * grid + shares.extra_until, shares.dealt);
          EXPECT_LT(shares.extra_until, grid);
          EXPECT_TRUE(shares.coarse >= 1 && shares.coarse <= 32 && shares.fine >= 1 && shares.fine <= shares.coarse);
          EXPECT_GE(shares.coarse_claims, 0);
          int64_t next = 0;
          for (int64_t block = 0; block < grid; ++block) {
            ASSERT_EQ(block * shares.each + std::min<int64_t>(block, shares.extra_until), next);
            next += shares.each + (block < shares.extra_until ? 1 : 0);
          }
          EXPECT_EQ(next, shares.dealt);
          const int64_t coarse_end = shares.dealt + shares.coarse_claims * shares.coarse;
          EXPECT_LE(coarse_end, total) << "only the last claim is cut short";
        }
      }
    }
  }
}

// How much of a block's share is left open, in bytes.
TEST(PlanTest, SharesLeaveTheirEndOpen) {
  const int64_t grid = PlanScore(ScalarType::kF16, 128, {{1, 100000}}, kHopper)->grid();
  const auto open_bytes = [&](ScalarType type, int64_t total, int64_t mean_tokens) {
    const ScorePlan plan = *PlanScore(type, 128, {{1, total}}, kHopper);
    const StreamShares shares = PlanStreamShares(plan, {total, /*regular=*/0, mean_tokens, /*spread_tokens=*/0});
    return (shares.total - shares.dealt) * mean_tokens * plan.row_bytes / grid;
  };
  const auto share = [&](int64_t total, int64_t mean_tokens, int64_t row_bytes) {
    return static_cast<double>(total * mean_tokens * row_bytes) / static_cast<double>(grid);
  };
  // Few candidates or few bytes are dealt.
  EXPECT_EQ(open_bytes(ScalarType::kF16, 1000, 121), 0);
  EXPECT_EQ(open_bytes(ScalarType::kF16, grid * 16 - 1, 5000), 0);
  EXPECT_EQ(open_bytes(ScalarType::kF16, 2500, 300), 0);
  EXPECT_EQ(open_bytes(ScalarType::kI8, 5000, 300), 0);
  EXPECT_GT(open_bytes(ScalarType::kF16, grid * 16, 5000), 0);
  // A quarter of a share of few megabytes, then one megabyte, then a sixteenth.
  EXPECT_NEAR(open_bytes(ScalarType::kF16, 5000, 300), share(5000, 300, 256) / 4, 1000);
  EXPECT_NEAR(open_bytes(ScalarType::kI8, 10000, 300), share(10000, 300, 128) / 4, 1000);
  EXPECT_NEAR(open_bytes(ScalarType::kF16, 10000, 300), 1000 << 10, 1000);
  EXPECT_NEAR(open_bytes(ScalarType::kF16, 100000, 121), share(100000, 121, 256) / 16, 1000);
}

// Pieces of about as many bytes, whatever the storage.
TEST(PlanTest, ClaimsAreMeasuredInBytes) {
  const auto shares = [&](ScalarType type, int64_t mean_tokens) {
    return PlanStreamShares(*PlanScore(type, 128, {{1, 100000}}, kHopper), {100000, 100000, mean_tokens, 0});
  };
  EXPECT_EQ(shares(ScalarType::kF16, 300).coarse, 2);
  EXPECT_EQ(shares(ScalarType::kF16, 300).fine, 1);
  EXPECT_EQ(shares(ScalarType::kI8, 300).coarse, 4);
  EXPECT_EQ(shares(ScalarType::kI8, 300).fine, 2);
  EXPECT_EQ(shares(ScalarType::kF16, 5000).coarse, 1);
  EXPECT_EQ(shares(ScalarType::kI8, 1).coarse, 32);
}

// Small shares of unequal documents are claimed in smaller pieces, but not one by one where they are short.
TEST(PlanTest, SmallClaimsOfUnequalDocumentsAreMeasuredInBytes) {
  const auto claims = [](int64_t mean_tokens) {
    const StreamShares shares =
        PlanStreamShares(*PlanScore(ScalarType::kF16, 128, {{1, 10000}}, kHopper), {10000, 0, mean_tokens, 700});
    EXPECT_FALSE(shares.all_dealt());
    EXPECT_EQ(shares.coarse, shares.fine);
    return shares.coarse;
  };
  EXPECT_EQ(claims(1), 32);
  EXPECT_EQ(claims(10), 10);
  EXPECT_EQ(claims(34), 3);
  EXPECT_EQ(claims(96), 1);
}

// Teams are dealt all candidates, and each has chunks for its own.
TEST(PlanTest, TeamsHaveRoomForTheirCandidates) {
  for (int32_t num_sms : {1, 2, 7, 114, 132}) {
    DeviceLimits limits = kHopper;
    limits.num_sms = num_sms;
    for (const auto& [row_tiles, regular] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                                     {1, 33},
                                                                                     {1, 64},
                                                                                     {1, 65},
                                                                                     {1, 1000},
                                                                                     {1, 4096},
                                                                                     {1, 4097},
                                                                                     {2, 1},
                                                                                     {3, 32},
                                                                                     {3, 33},
                                                                                     {40, 20},
                                                                                     {100, 31},
                                                                                     {9, 400},
                                                                                     {70, 34}}) {
      const ScorePlan plan =
          *PlanScore(ScalarType::kF16, 128, std::vector<ScoreGroup>(static_cast<size_t>(row_tiles), {1, regular}),
                     limits, /*document_bytes=*/300 * 256);
      ASSERT_EQ(plan.tile, ScoreTile::kStream32);
      ASSERT_EQ(plan.num_row_tiles, row_tiles);
      const int64_t total = row_tiles * regular;
      const StreamShares shares = PlanStreamShares(plan, {total, regular, 300, 0}, {.teams = 1});
      if (shares.team_blocks == 1) continue;
      SCOPED_TRACE(testing::Message() << num_sms << " blocks, " << row_tiles << " x " << shares.ToString());
      ASSERT_EQ(shares.blocks % shares.team_blocks, 0);
      EXPECT_LE(shares.blocks, plan.grid());
      EXPECT_GE(shares.blocks, plan.grid() * 2 / 3);
      const int64_t teams = shares.blocks / shares.team_blocks;
      EXPECT_TRUE(shares.all_dealt());
      EXPECT_EQ(shares.each * teams + shares.extra_until, total);
      EXPECT_LT(shares.extra_until, teams);
      EXPECT_LE(total, kMostTeamCandidates);
      for (int64_t team = 0; team < teams; ++team) {
        int64_t next = team * shares.each + std::min<int64_t>(team, shares.extra_until);
        const int64_t end = next + shares.each + (team < shares.extra_until ? 1 : 0);
        int chunks = 0;
        for (; next < end; ++chunks) next = std::min({next + 32, (next / regular + 1) * regular, end});
        EXPECT_LE(chunks, kTeamChunks) << "team " << team;
      }
    }
  }
}

// Which calls have teams, and how large ones.
TEST(PlanTest, TeamsEvenOutUnequalShares) {
  const auto shares = [](int32_t dim, int64_t num_candidates, int64_t mean_tokens, int64_t spread_tokens,
                         const StreamTuning& tuning = {}, int64_t regular = -1) {
    const ScorePlan plan =
        *PlanScore(ScalarType::kF16, dim, {{1, num_candidates}}, kHopper, static_cast<double>(mean_tokens * dim * 2));
    return PlanStreamShares(plan, {num_candidates, regular < 0 ? num_candidates : regular, mean_tokens, spread_tokens},
                            tuning);
  };
  const auto team_blocks = [&](auto... arguments) { return shares(arguments...).team_blocks; };
  ASSERT_EQ(kHopper.num_sms, 132);
  // Long documents, fewer than there are blocks, or one more in some blocks than in others.
  EXPECT_EQ(team_blocks(128, 10, 1030, 0), 132);
  EXPECT_EQ(team_blocks(128, 10, 100, 0), 1) << "too short";
  EXPECT_EQ(team_blocks(128, 130, 1030, 0), 1) << "nearly one a block";
  EXPECT_EQ(team_blocks(128, 280, 1024, 0), 22);
  EXPECT_EQ(team_blocks(128, 1000, 1024, 0), 1) << "eight documents where others have seven: the memory is busy";
  EXPECT_EQ(team_blocks(128, 1210, 1024, 0), 1);
  EXPECT_EQ(team_blocks(768, 1000, 1024, 0), 6) << "rows in shared memory";
  // Unequal ones.
  EXPECT_EQ(team_blocks(128, 64, 376, 629), 132);
  EXPECT_EQ(team_blocks(128, 65, 376, 629), 66);
  EXPECT_EQ(team_blocks(128, 1000, 121, 0), 1);
  EXPECT_EQ(team_blocks(128, 1000, 121, 50), 1) << "passages";
  EXPECT_EQ(team_blocks(128, 1000, 121, 140), 6) << "22 teams, which divide the grid, where 16 would do";
  EXPECT_EQ(team_blocks(128, 1000, 376, 629), 6) << "claims would leave a long document";
  // Whatever is wanted or can be.
  EXPECT_EQ(team_blocks(128, 1000, 376, 629, StreamTuning{}, /*regular=*/0), 1) << "lists of different lengths";
  EXPECT_EQ(team_blocks(128, 1000, 376, 629, StreamTuning{.teams = 0}), 1);
  EXPECT_EQ(team_blocks(128, 1000, 376, 629, StreamTuning{.dealt_percent = 100}), 1);
  EXPECT_EQ(team_blocks(128, 1000, 20, 0, StreamTuning{.teams = 1}), 6);
  EXPECT_EQ(team_blocks(128, 4097, 20, 0, StreamTuning{.teams = 1}), 1) << "more than there are cut documents";
  EXPECT_EQ(team_blocks(128, 4000, 1000, 900), 1) << "large shares end together by claims";
  EXPECT_EQ(team_blocks(128, 4000, 1000, 900, StreamTuning{.teams = 1}), 2);
  // Blocks that take part.
  EXPECT_EQ(shares(128, 10, 1030, 0).blocks, 132);
  EXPECT_EQ(shares(128, 10, 1030, 0, StreamTuning{.teams = 0}).blocks, 10);
  EXPECT_EQ(shares(128, 1000, 121, 0).blocks, 132);
  // A grid that no number of teams divides: 131 blocks, for documents of 1.3 tiles.
  EXPECT_EQ(team_blocks(768, 100, 21, 0, StreamTuning{.teams = 1}), 65);
  EXPECT_EQ(shares(768, 100, 21, 0, StreamTuning{.teams = 1}).blocks, 130);
}

// Few documents, but long ones, are work for more blocks than there are documents.
TEST(PlanTest, AStreamedDocumentMayBeSeveralBlocks) {
  const auto grid = [](int64_t num_candidates, double document_bytes) {
    return PlanScore(ScalarType::kF16, 128, {{1, num_candidates}}, kHopper, document_bytes)->grid();
  };
  EXPECT_EQ(grid(10, 0), 10);
  EXPECT_EQ(grid(10, 20 * 256), 10);
  EXPECT_EQ(grid(10, 64 * 256), 20);
  EXPECT_EQ(grid(10, 1030 * 256), 132);
}

TEST(PlanTest, SpreadIsOfTheDocumentsThatTokensAreIn) {
  const auto spread = [](const std::vector<int64_t>& lengths) {
    std::vector<int64_t> offsets = {0};
    for (int64_t length : lengths) offsets.push_back(offsets.back() + length);
    return SpreadTokens(offsets.data(), static_cast<int64_t>(lengths.size()));
  };
  EXPECT_EQ(spread({}), 0);
  EXPECT_EQ(spread({7}), 0);
  EXPECT_EQ(spread({50, 50, 50}), 0);
  EXPECT_EQ(spread({100, 300, 200}), 33) << "(100 * 100 + 300 * 300 + 200 * 200) / 600 - 200, cut off";
  // One document of sixteen means or more counts as sixteen.
  std::vector<int64_t> lengths(100000, 30);
  lengths[5] = 65535;
  EXPECT_EQ(spread(lengths), 0);
  for (size_t i = 0; i < lengths.size(); i += 1000) lengths[i] = 5000;
  EXPECT_LT(spread(lengths), 10);
  for (size_t i = 0; i < lengths.size(); i += 10) lengths[i] = 400;
  EXPECT_NEAR(static_cast<double>(spread(lengths)), (0.1 * 400 * 400 + 0.9 * 30 * 30) / 67 - 67, 10);
}

TEST(PlanTest, ListsOfWideRowsAreDealtOut) {
  const std::vector<ScoreGroup> lists(32, {1, 1000});
  const auto all_dealt = [&lists](int32_t dim, int64_t spread_tokens) {
    return PlanStreamShares(*PlanScore(ScalarType::kF16, dim, lists, kHopper), {32000, 1000, 121, spread_tokens})
        .all_dealt();
  };
  EXPECT_FALSE(all_dealt(128, 0));
  EXPECT_TRUE(all_dealt(768, 0)) << "a ring that must be emptied between row tiles";
  EXPECT_FALSE(all_dealt(768, 139)) << "unequal documents cost more than that";
}

// Documents of 376 tokens in the mean, those of 10 to 2,000 log-uniform.
TEST(PlanTest, SharesOfUnequalDocumentsLeaveAHalfOpen) {
  const auto shares = [](int32_t dim, int64_t total, int64_t spread_tokens) {
    return PlanStreamShares(*PlanScore(ScalarType::kF16, dim, {{1, total}}, kHopper),
                            {total, /*regular=*/0, 376, spread_tokens});
  };
  const int64_t grid = PlanScore(ScalarType::kF16, 128, {{1, 1000}}, kHopper)->grid();
  EXPECT_NEAR(static_cast<double>(shares(128, 1000, 629).dealt), 500, 1);
  EXPECT_EQ(shares(128, 1000, 629).coarse, 1);
  EXPECT_EQ(shares(128, 1000, 629).fine, 1);
  EXPECT_TRUE(shares(128, 1000, 0).all_dealt());
  EXPECT_TRUE(shares(128, 1000, 255).all_dealt()) << "equal enough";
  EXPECT_FALSE(shares(128, 1000, 256).all_dealt());
  EXPECT_FALSE(shares(768, 1000, 43).all_dealt()) << "bytes matter";
  EXPECT_TRUE(shares(128, 7 * grid - 1, 629).all_dealt()) << "claims take longer than they save";
  EXPECT_FALSE(shares(128, 7 * grid, 629).all_dealt());
  // Of large shares what the spread takes, but not less than of equal documents.
  const StreamShares large = shares(128, 20000, 629);
  EXPECT_NEAR(static_cast<double>(large.total - large.dealt), 8.0 * 629 * static_cast<double>(grid) / 376, 10);
  EXPECT_EQ(shares(128, 1000000, 629).dealt, shares(128, 1000000, 0).dealt);
  EXPECT_EQ(large.coarse, 2);
}

// Where a long document takes much longer than others, and blocks have few.
TEST(PlanTest, UnequalDocumentsAreOrdered) {
  const auto order = [](ScalarType type, int32_t dim, int64_t blocks, int64_t documents, int64_t mean,
                        int64_t longest) {
    return PlanOrder(*PlanScore(type, dim, {{blocks, documents}}, kHopper), documents, mean, longest, false);
  };
  const OrderPlan few = order(ScalarType::kF16, 256, 6, 755, 500, 3300);
  EXPECT_EQ(few.chunk_groups, 32) << "a block has 357 groups";
  EXPECT_NEAR(few.early_groups, 312, 8) << "7/8 of those";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 7550, 500, 3300).chunk_groups, 128) << "as many as it may have";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 132, 500, 3300).chunk_groups, 0) << "a block has one";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 755, 500, 700).chunk_groups, 0) << "all nearly as long";
  EXPECT_EQ(order(ScalarType::kI8, 64, 6, 755, 50, 300).chunk_groups, 0) << "nothing takes long";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 100000, 500, 3300).chunk_groups, 0) << "a long one is a small part";
  // Half the rows take half the time.
  EXPECT_GT(order(ScalarType::kF16, 128, 6, 755, 100, 700).chunk_groups, 0);
  EXPECT_EQ(order(ScalarType::kF16, 128, 3, 755, 100, 700).chunk_groups, 0);
  for (int64_t documents : {int64_t{1}, int64_t{100}, kMaxShardDocuments}) {
    const ScorePlan plan = *PlanScore(ScalarType::kF16, 128, {{8, documents}}, kHopper);
    const OrderPlan always = PlanOrder(plan, documents, 1, 1, true);
    EXPECT_TRUE(always.chunk_groups >= 32 && always.chunk_groups <= 128);
    EXPECT_TRUE(always.early_groups >= 0 && always.early_groups <= kMostEarlyGroups);
  }
}

TEST(PlanTest, OneQueryOverManyDocumentsFillsTheDevice) {
  const absl::StatusOr<ScorePlan> plan = PlanScore(ScalarType::kF16, 128, {{1, 10000}}, kH200);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->grid(), 2 * kH200.num_sms);
  EXPECT_TRUE(plan->query_resident);
  EXPECT_GE(plan->stages, 4);
  // No more thread blocks than candidates.
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{1, 7}}, kH200)->grid(), 7);
}

TEST(PlanTest, WideQueriesAreStreamed) {
  EXPECT_TRUE(PlanScore(ScalarType::kF16, 256, {{1, 1000}}, kH200)->query_resident);
  EXPECT_FALSE(PlanScore(ScalarType::kF16, 4096, {{32, 1000}}, kH200)->query_resident);
  EXPECT_FALSE(PlanScore(ScalarType::kF32, 4096, {{1, 1000}}, kA10)->query_resident);
}

TEST(PlanTest, WhatCannotBeScoredIsNamed) {
  const auto message = [](const absl::StatusOr<ScorePlan>& plan) { return std::string(plan.status().message()); };
  EXPECT_THAT(message(PlanScore(ScalarType::kF16, 7, {{1, 1}}, kH200)), HasSubstr("dimension 7 is outside 8 .. 4096"));
  EXPECT_THAT(message(PlanScore(ScalarType::kF16, 4097, {{1, 1}}, kH200)), HasSubstr("dimension 4097"));
  const DeviceLimits tiny{1, 16384, 16384, 1024, 1024};
  const absl::StatusOr<ScorePlan> plan = PlanScore(ScalarType::kF16, 128, {{1, 1}}, tiny);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(plan), HasSubstr("16384 bytes of shared memory a block"));
}

TEST(PlanTest, PlansArePrintable) {
  const absl::StatusOr<ScorePlan> plan = PlanScore(ScalarType::kBF16, 100, {{4, 10000}}, kH200);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(plan->ToString(), HasSubstr("score bf16 rows128 (128 rows x 128 tokens x 128 bytes, query resident), 7 "
                                          "steps in 2 chunks"));
  EXPECT_EQ(PlanSelect(1000, 100, 1, kH200).ToString(), "ranking of all candidates on 32 blocks");
  EXPECT_EQ(PlanSelect(1000000, 100, 1, kH200).ToString(), "selection by the maxima of 123 x 32 groups");
  EXPECT_EQ(PlanSelect(1000000, 10000, 1, kH200).ToString(), "selection by histograms on 123 blocks");
}

TEST(PlanTest, SelectionCoversItsCandidates) {
  for (int64_t candidates : {int64_t{1}, int64_t{31}, int64_t{32}, int64_t{33}, kRankAllCandidates,
                             kRankAllCandidates + 1, int64_t{10000}, int64_t{1} << 20, kMaxShardDocuments}) {
    for (int64_t k : {1, 100, 341, 342, 1000, 2730, 2731, 10000}) {
      if (k > candidates) continue;
      for (int64_t queries : {1, 4, 32, 132, 256}) {
        const SelectPlan plan = PlanSelect(candidates, k, queries, kH200);
        SCOPED_TRACE(testing::Message() << candidates << " candidates, k " << k << ", " << queries
                                        << " queries: " << plan.ToString());
        EXPECT_EQ(plan.large(), candidates > kRankAllCandidates);
        if (!plan.large()) {
          EXPECT_GE(plan.rank_blocks * 32, candidates);
          continue;
        }
        EXPECT_LE(plan.chunks * queries, std::max<int64_t>(kH200.num_sms, queries));
        EXPECT_LE(plan.chunks, kMaxSelectChunks);
        EXPECT_GE(plan.keys(), k);
        EXPECT_LE(plan.keys() * queries, MostSelectKeys(queries, k * queries, kH200));
        if (plan.groups == 0) continue;
        EXPECT_EQ(kSelectThreads % plan.groups, 0);
        EXPECT_GE(plan.groups, 32);
        EXPECT_GE(plan.chunks * plan.groups, 3 * k);
        EXPECT_LE(plan.chunks * plan.groups, kMaxSelectGroups);
      }
    }
  }
}

}  // namespace
}  // namespace maxsim
