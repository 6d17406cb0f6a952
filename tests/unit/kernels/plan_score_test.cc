// Tests that every call's plan can be launched and covers its work, on devices of several kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/limits.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/plan_score.h"
#include "kernels/plan/portable_shape.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/select.h"
#include "tests/unit/kernels/plan_fixture.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_EQ(plan.shared_bytes, WideSharedBytes(WideHalves(plan.num_steps)));
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

  // A row is cut into k-steps and into column chunks. Both must cover the whole row, and none may lie completely
  // outside it.
  EXPECT_GE(plan.num_steps * kStepBytes, plan.row_bytes);
  EXPECT_LT((plan.num_steps - 1) * kStepBytes, plan.row_bytes);
  EXPECT_GE(plan.num_chunks * traits.chunk_bytes, plan.row_bytes);
  EXPECT_LT((plan.num_chunks - 1) * traits.chunk_bytes, plan.row_bytes);

  EXPECT_EQ(plan.chunks_of_chain * traits.chunk_bytes, kChainColumns * static_cast<int32_t>(SizeOf(plan.type)));
  if (plan.num_chunks > plan.chunks_of_chain && plan.type != ScalarType::kI8) {
    EXPECT_TRUE(plan.tile == ScoreTile::kRows32 || plan.tile == ScoreTile::kRows64) << "no sums for several chains";
  }

  // All thread blocks of the grid run at once, and no more row tiles are scored at once than there are.
  EXPECT_GE(plan.grid(), 1);
  EXPECT_LE(plan.grid(), limits.num_sms * plan.blocks_per_sm);
  EXPECT_LE(plan.row_tiles_at_once, plan.num_row_tiles);
}

TEST(PlanTest, ResidualCodesHaveAKernelOfTheirOwn) {
  for (const DeviceLimits& limits : kDevices) {
    for (const ScalarType type :
         {ScalarType::kResidual1, ScalarType::kResidual2, ScalarType::kResidual4, ScalarType::kResidual8}) {
      for (const int32_t dim : {8, 128, 1000, 1024}) {
        for (const int64_t query_tiles : {1, 3, 5000}) {
          const QueryGroupShape groups[] = {{query_tiles, 70'000}, {1, 3}};
          const absl::StatusOr<ScorePlan> plan = PlanScore(type, dim, groups, limits, /*document_bytes=*/5000);
          ASSERT_TRUE(plan.ok()) << plan.status();
          EXPECT_EQ(plan->tile, ScoreTile::kResidual32);
          EXPECT_EQ(plan->num_row_tiles, query_tiles + 1);
          // A thread block works on one row tile. Each of its warps scores a different candidate.
          EXPECT_EQ(plan->row_tiles_at_once, plan->num_row_tiles);
          EXPECT_GE(plan->blocks_per_row_tile, 1);
          EXPECT_LE(plan->blocks_per_row_tile, 70'000 / 4);
          EXPECT_EQ(plan->row_bytes % 16, 0);
          EXPECT_LE(plan->shared_bytes, limits.shared_bytes_per_block);
          const absl::StatusOr<ScorePlan> align = PlanAlign(type, dim, query_tiles, 3, limits);
          ASSERT_TRUE(align.ok()) << align.status();
          EXPECT_EQ(align->tile, ScoreTile::kResidual32);
          EXPECT_EQ(align->blocks_per_row_tile, 1);
        }
      }
    }
  }
}

TEST(PlanTest, EveryShapeHasALaunchablePlanOnEveryDevice) {
  for (const DeviceLimits& limits : kDevices) {
    for (ScalarType type : kTypes) {
      for (int32_t dim : kDims) {
        for (int64_t query_tiles : {1, 2, 3, 4, 5, 32, 128, 2048}) {
          for (int64_t candidates : {int64_t{1}, int64_t{2}, int64_t{1000}, kMaxShardDocuments}) {
            const QueryGroupShape groups[] = {{query_tiles, candidates}, {1, 1}};
            for (const double document_bytes : {0.0, 5000.0}) {
              const absl::StatusOr<ScorePlan> plan = PlanScore(type, dim, groups, limits, document_bytes);
              ASSERT_TRUE(plan.ok()) << plan.status();
              ExpectLaunchable(*plan, limits);
              const int64_t query_tiles_per_row_tile = TraitsOf(plan->tile).query_tiles();
              EXPECT_EQ(plan->num_row_tiles,
                        (query_tiles + query_tiles_per_row_tile - 1) / query_tiles_per_row_tile + 1);
            }
            const absl::StatusOr<ScorePlan> align = PlanAlign(type, dim, query_tiles, candidates, limits);
            ASSERT_TRUE(align.ok()) << align.status();
            ExpectLaunchable(*align, limits);
            EXPECT_EQ(align->num_row_tiles, query_tiles);
            EXPECT_EQ(TraitsOf(align->tile).query_tiles(), 1);
          }
        }
      }
    }
  }
}

TEST(PlanTest, ShortQueriesTakeShortTilesAndStackedOnesWideOnes) {
  const auto tile = [](int32_t dim, std::vector<QueryGroupShape> groups) {
    return PlanScore(ScalarType::kF16, dim, groups, kH200)->tile;
  };
  EXPECT_EQ(tile(48, {{1, 1000}}), ScoreTile::kRows32Narrow);
  EXPECT_EQ(tile(64, {{1, 1000}}), ScoreTile::kRows32Narrow);
  EXPECT_EQ(tile(65, {{1, 1000}}), ScoreTile::kRows32);
  EXPECT_EQ(tile(128, {{1, 1000}}), ScoreTile::kRows32);
  EXPECT_EQ(tile(128, {{2, 1000}}), ScoreTile::kRows64);
  EXPECT_EQ(tile(128, {{4, 1000}}), ScoreTile::kRows128);
  EXPECT_EQ(tile(128, {{32, 1000}}), ScoreTile::kRows128);
  // Each of the 32 short queries has its own list, so no two queries can be stacked.
  EXPECT_EQ(tile(128, std::vector<QueryGroupShape>(32, {1, 1000})), ScoreTile::kRows32);
  EXPECT_EQ(PlanScore(ScalarType::kF32, 128, {{32, 1000}}, kH200)->tile, ScoreTile::kRows32);
}

TEST(PlanTest, HopperStacksUpTo256Rows) {
  const auto tile = [](int32_t dim, std::vector<QueryGroupShape> groups) {
    return PlanScore(ScalarType::kF16, dim, groups, kHopper)->tile;
  };
  EXPECT_EQ(tile(48, {{1, 1000}}), ScoreTile::kStream32);
  EXPECT_EQ(tile(128, {{1, 1000}}), ScoreTile::kStream32);
  EXPECT_EQ(tile(128, std::vector<QueryGroupShape>(32, {1, 1000})), ScoreTile::kStream32);
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
  // A plan has one thread block per multiprocessor, but at most one per document and row tile.
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 1000}}, kHopper)->grid(), kHopper.num_sms);
  EXPECT_EQ(PlanScore(ScalarType::kF16, 128, {{32, 3}}, kHopper)->grid(), 12);
}

// For several query tiles (32 tokens each), the wide and deep kernels read documents once, and the stream kernel reads
// them once per query tile. But the stream kernel starts and ends sooner. So short calls use it.
TEST(PlanTest, HopperStreamsShortCallsOfSeveralQueryTiles) {
  const auto tile = [](ScalarType type, int32_t dim, QueryGroupShape group, int64_t document_tokens,
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
  EXPECT_EQ(tile(kF16, 128, {/*num_query_tiles=*/6, 64, /*packed_query_tiles=*/2}, 60), ScoreTile::kStream32);
  EXPECT_EQ(tile(kF16, 128, {/*num_query_tiles=*/64, 1000, /*packed_query_tiles=*/16}, 60), ScoreTile::kWide256);
  // With more documents than thread blocks, the wide kernel takes longer, because its thread blocks must then claim
  // documents.
  EXPECT_EQ(tile(kF16, 128, {2, 132}, 800), ScoreTile::kWide128);
  EXPECT_EQ(tile(kF16, 128, {2, 133}, 800), ScoreTile::kStream32);
  // INT8 rows have half the bytes of F16 rows and take half the time. With query rows in shared memory instead of
  // registers, the wide kernel takes longer.
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

// If at most half of a query group's last row tile is used, that row tile gets half the height.
TEST(PlanTest, WideTilesMayBeHalfOnes) {
  const auto plan = [](const std::vector<QueryGroupShape>& groups, ScoreTile tile) {
    DeviceLimits limits = kHopper;
    limits.tiles = 1u << static_cast<uint32_t>(tile);
    return *PlanScore(ScalarType::kF16, 128, groups, limits);
  };
  const auto half_tiles = [&](const std::vector<QueryGroupShape>& groups) {
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
  // A half row tile takes as long as a row tile of the kernel with half the rows.
  const std::vector<QueryGroupShape> whole = {{8, 1000}}, half = {{4, 1000}}, both = {{12, 1000}};
  const double reads = EstimatedReads(both, ScoreTile::kWide256);
  EXPECT_DOUBLE_EQ(reads, EstimatedReads(whole, ScoreTile::kWide256) + EstimatedReads(half, ScoreTile::kWide128));
}

TEST(PlanTest, HopperTakesWiderRowsByChunks) {
  const auto plan = [](int32_t dim, int64_t query_tiles) {
    const QueryGroupShape group{query_tiles, 1000};
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
  EXPECT_EQ(plan(1025, 32).tile, ScoreTile::kRows64) << "rows of two chains";
  EXPECT_EQ(PlanScore(ScalarType::kF32, 768, {{32, 1000}}, kHopper)->tile, ScoreTile::kRows32);
  DeviceLimits no_maps = kHopper;
  no_maps.tensor_maps = false;
  EXPECT_EQ(PlanScore(ScalarType::kF16, 768, {{32, 1000}}, no_maps)->tile, ScoreTile::kRows128);
  // The query tile (32 query rows) stays in shared memory if at least three stages of the ring fit next to it.
  EXPECT_TRUE(plan(256, 8).query_resident);
  EXPECT_EQ(plan(256, 8).stages, 4);
  EXPECT_FALSE(plan(257, 8).query_resident);
  EXPECT_EQ(plan(257, 8).stages, 4);
  EXPECT_TRUE(plan(320, 4).query_resident);
  EXPECT_FALSE(plan(321, 4).query_resident);
  EXPECT_EQ(plan(321, 4).stages, 3);
}

// INT8 rows have half the bytes of F16 rows, and their sums are exact, so they are not split into chains.
TEST(PlanTest, QuantizedDocumentsTakeTheTilesOfTheirRowsBytes) {
  const auto tile = [](int32_t dim, std::vector<QueryGroupShape> groups, const DeviceLimits& limits) {
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

// Short queries over the same documents share query tiles (32 rows), and so need fewer row tiles. The kernel must be
// able to sum the queries of a query tile separately.
TEST(PlanTest, ShortQueriesShareQueryTilesOfWideAndDeepKernels) {
  EXPECT_EQ(PackedRows(1), 8);
  EXPECT_EQ(PackedRows(8), 8);
  EXPECT_EQ(PackedRows(9), 16);
  EXPECT_EQ(PackedRows(16), 16);
  EXPECT_EQ(PackedRows(17), 32);
  EXPECT_EQ(PackedRows(32), 32);
  EXPECT_EQ(PackedRows(33), 40);
  EXPECT_EQ(PackedRows(48), 48);
  EXPECT_EQ(PackedRows(49), 64);
  const QueryGroupShape group{/*num_query_tiles=*/32, /*num_candidates=*/1000, /*packed_query_tiles=*/8};
  const auto plan = [&group](int32_t dim, const DeviceLimits& limits) {
    return PlanScore(ScalarType::kF16, dim, {group}, limits);
  };
  EXPECT_EQ(plan(128, kHopper)->tile, ScoreTile::kWide256);
  EXPECT_EQ(plan(128, kHopper)->num_row_tiles, 1);
  EXPECT_EQ(plan(256, kHopper)->tile, ScoreTile::kDeep256);
  EXPECT_EQ(plan(256, kHopper)->num_row_tiles, 1);
  EXPECT_EQ(plan(128, kH200)->num_row_tiles, 8);  // row tiles of 128 rows
}

// Summing the queries of a shared query tile separately takes longer. So queries share query tiles only if that saves
// enough row tiles.
TEST(PlanTest, QueryTilesAreSharedWhereThatSavesRowTiles) {
  const auto shares = [](int64_t num_query_tiles, int64_t packed_query_tiles, ScoreTile tile) {
    return SharesQueryTiles({num_query_tiles, /*num_candidates=*/1000, packed_query_tiles}, tile);
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
  EXPECT_EQ(QueryTilesOf({64, 1000, 48}, ScoreTile::kWide256), 48);
  EXPECT_EQ(QueryTilesOf({64, 1000, 48}, ScoreTile::kRows128), 64);
  EXPECT_EQ(QueryTilesOf({64, 1000}, ScoreTile::kWide256), 64);
}

TEST(PlanTest, OneQueryOverManyDocumentsFillsTheDevice) {
  const absl::StatusOr<ScorePlan> plan = PlanScore(ScalarType::kF16, 128, {{1, 10000}}, kH200);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->grid(), 2 * kH200.num_sms);
  EXPECT_TRUE(plan->query_resident);
  EXPECT_GE(plan->stages, 4);
  // A plan has no more thread blocks than candidates.
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
  EXPECT_EQ(PlanSelect(1000, 100, 1, kH200).ToString(), "ranking of all candidates on 32 thread blocks");
  EXPECT_EQ(PlanSelect(1000000, 100, 1, kH200).ToString(), "selection by the maxima of 123 x 32 buckets");
  EXPECT_EQ(PlanSelect(1000000, 10000, 1, kH200).ToString(), "selection by histograms on 123 thread blocks");
}

}  // namespace
}  // namespace maxsim
