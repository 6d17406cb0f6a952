// Every call's plan can be launched and covers its work, on devices of several kinds.
#include "kernels/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/limits.h"

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
    EXPECT_EQ(plan.shared_bytes, StreamLayoutOf().total);
    EXPECT_EQ(plan.threads, kStreamThreads);
    EXPECT_LE(plan.tile_tokens * plan.row_bytes, kStreamTileBytes);
    EXPECT_GE(plan.tile_tokens, 32);
    EXPECT_LE(plan.num_steps, 8);
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
            const absl::StatusOr<ScorePlan> plan = PlanScore(type, dim, groups, limits);
            ASSERT_TRUE(plan.ok()) << plan.status();
            ExpectLaunchable(*plan, limits);
            const int64_t tile_blocks = TraitsOf(plan->tile).blocks();
            EXPECT_EQ(plan->num_row_tiles, (blocks + tile_blocks - 1) / tile_blocks + 1);
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
  EXPECT_EQ(tile(129, {{32, 1000}}), ScoreTile::kRows128) << "rows of more than 256 bytes";
  EXPECT_EQ(PlanScore(ScalarType::kF32, 64, {{32, 1000}}, kHopper)->tile, ScoreTile::kRows32);
  DeviceLimits limits = kHopper;
  limits.tiles = ~(1u << static_cast<uint32_t>(ScoreTile::kWide256));
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 1000}}, limits)->tile, ScoreTile::kWide128);
  // One thread block a multiprocessor, fewer where there are fewer documents and row tiles.
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 1000}}, kHopper)->grid(), kHopper.num_sms);
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 3}}, kHopper)->grid(), 12);
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
  EXPECT_EQ(tile(257, {{8, 1000}}, kHopper), ScoreTile::kRows128);
}

// What the wide kernels' shared memory holds: swizzled stages begin at multiples of 1,024, barriers at multiples of 8.
TEST(PlanTest, PartsOfAWideRingAreAlignedAndFit) {
  for (int32_t halves : {1, 2}) {
    const WideLayout layout = WideLayoutOf(halves);
    EXPECT_EQ(layout.stage_bytes % kWideAlignment, 0);
    EXPECT_EQ(layout.entries, WideStages(halves) * layout.stage_bytes);
    EXPECT_EQ(layout.entries % 16, 0);
    EXPECT_EQ(layout.full % 8, 0);
    EXPECT_GE(layout.full - layout.entries, kWideTileEntries * kWideTileEntryBytes);
    EXPECT_EQ(layout.empty - layout.full, WideStages(halves) * 8);
    EXPECT_EQ(layout.weights - layout.empty, WideStages(halves) * 8);
    EXPECT_GE(layout.ended_scales - layout.weights, kWideMultipliers * kBlockTokens * 4);
    EXPECT_LE(layout.total, kHopper.shared_bytes_per_block);
    EXPECT_GE(kWideTileEntries, WideStages(halves));
  }
  EXPECT_EQ(WideHalves(4), 1);
  EXPECT_EQ(WideHalves(5), 2);
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
  EXPECT_THAT(PlanSelect(1, 1000, 100, kH200).ToString(), HasSubstr("ranking of all"));
  EXPECT_THAT(PlanSelect(1, 1000000, 100, kH200).ToString(), HasSubstr("radix selection on"));
}

TEST(PlanTest, SelectionCoversItsCandidates) {
  for (int64_t candidates : {int64_t{1}, int64_t{31}, int64_t{32}, int64_t{33}, kRankAllCandidates,
                             kRankAllCandidates + 1, int64_t{1} << 20, kMaxShardDocuments}) {
    for (int64_t queries : {1, 32, 256}) {
      const SelectPlan plan = PlanSelect(queries, candidates, kMaxTopK, kH200);
      EXPECT_EQ(plan.radix, candidates > kRankAllCandidates);
      EXPECT_GE(plan.rank_blocks, 1);
      if (plan.radix) {
        EXPECT_GE(plan.select_blocks, 1);
      }
      EXPECT_LE(plan.select_blocks, 2 * kH200.num_sms);
    }
  }
}

}  // namespace
}  // namespace maxsim
