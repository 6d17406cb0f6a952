// Tests how the candidates of a call are divided among thread blocks: assigned in advance, claimed later, or assigned
// to teams. Each division must cover all candidates, also if documents have different lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/plan/plan_score.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/shares.h"
#include "tests/unit/kernels/plan_fixture.h"

namespace maxsim {
namespace {

// Candidates are assigned to thread blocks in advance or claimed by them later. Both together must cover each candidate
// once and in order.
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
          EXPECT_EQ(shares.each * grid + shares.extra_until, shares.assigned);
          EXPECT_LT(shares.extra_until, grid);
          EXPECT_TRUE(shares.coarse >= 1 && shares.coarse <= 32 && shares.fine >= 1 && shares.fine <= shares.coarse);
          EXPECT_GE(shares.coarse_claims, 0);
          int64_t next = 0;
          for (int64_t block = 0; block < grid; ++block) {
            ASSERT_EQ(block * shares.each + std::min<int64_t>(block, shares.extra_until), next);
            next += shares.each + (block < shares.extra_until ? 1 : 0);
          }
          EXPECT_EQ(next, shares.assigned);
          const int64_t coarse_end = shares.assigned + shares.coarse_claims * shares.coarse;
          EXPECT_LE(coarse_end, total) << "only the last claim is cut short";
        }
      }
    }
  }
}

// Checks how many bytes per thread block are not assigned in advance. Thread blocks claim these while the kernel runs.
TEST(PlanTest, SharesLeaveTheirEndOpen) {
  const int64_t grid = PlanScore(ScalarType::kF16, 128, {{1, 100000}}, kHopper)->grid();
  const auto open_bytes = [&](ScalarType type, int64_t total, int64_t mean_tokens) {
    const ScorePlan plan = *PlanScore(type, 128, {{1, total}}, kHopper);
    const StreamShares shares = PlanStreamShares(plan, {total, /*regular=*/0, mean_tokens, /*spread_tokens=*/0});
    return (shares.total - shares.assigned) * mean_tokens * plan.row_bytes / grid;
  };
  const auto share = [&](int64_t total, int64_t mean_tokens, int64_t row_bytes) {
    return static_cast<double>(total * mean_tokens * row_bytes) / static_cast<double>(grid);
  };
  // Calls of few candidates or few bytes are completely assigned in advance.
  EXPECT_EQ(open_bytes(ScalarType::kF16, 1000, 121), 0);
  EXPECT_EQ(open_bytes(ScalarType::kF16, grid * 16 - 1, 5000), 0);
  EXPECT_EQ(open_bytes(ScalarType::kF16, 2500, 300), 0);
  EXPECT_EQ(open_bytes(ScalarType::kI8, 5000, 300), 0);
  EXPECT_GT(open_bytes(ScalarType::kF16, grid * 16, 5000), 0);
  // A thread block's share of up to 4,000 KiB leaves a quarter to be claimed later. A share of up to 16,000 KiB leaves
  // 1,000 KiB, and a larger one a sixteenth.
  EXPECT_NEAR(open_bytes(ScalarType::kF16, 5000, 300), share(5000, 300, 256) / 4, 1000);
  EXPECT_NEAR(open_bytes(ScalarType::kI8, 10000, 300), share(10000, 300, 128) / 4, 1000);
  EXPECT_NEAR(open_bytes(ScalarType::kF16, 10000, 300), 1000 << 10, 1000);
  EXPECT_NEAR(open_bytes(ScalarType::kF16, 100000, 121), share(100000, 121, 256) / 16, 1000);
}

// A claim has about the same number of bytes in every storage type.
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

// If document lengths differ and shares are small, a claim takes fewer documents. If the documents are short, a claim
// still takes several.
TEST(PlanTest, SmallClaimsOfUnequalDocumentsAreMeasuredInBytes) {
  const auto claims = [](int64_t mean_tokens) {
    const StreamShares shares =
        PlanStreamShares(*PlanScore(ScalarType::kF16, 128, {{1, 10000}}, kHopper), {10000, 0, mean_tokens, 700});
    EXPECT_FALSE(shares.all_assigned());
    EXPECT_EQ(shares.coarse, shares.fine);
    return shares.coarse;
  };
  EXPECT_EQ(claims(1), 32);
  EXPECT_EQ(claims(10), 10);
  EXPECT_EQ(claims(34), 3);
  EXPECT_EQ(claims(96), 1);
}

// Teams are groups of thread blocks. All candidates must be assigned to teams, and no team may have candidates in more
// than kTeamUnits work units.
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
          *PlanScore(ScalarType::kF16, 128, std::vector<QueryGroupShape>(static_cast<size_t>(row_tiles), {1, regular}),
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
      EXPECT_TRUE(shares.all_assigned());
      EXPECT_EQ(shares.each * teams + shares.extra_until, total);
      EXPECT_LT(shares.extra_until, teams);
      EXPECT_LE(total, kMaxTeamCandidates);
      for (int64_t team = 0; team < teams; ++team) {
        int64_t next = team * shares.each + std::min<int64_t>(team, shares.extra_until);
        const int64_t end = next + shares.each + (team < shares.extra_until ? 1 : 0);
        int units = 0;
        for (; next < end; ++units) next = std::min({next + 32, (next / regular + 1) * regular, end});
        EXPECT_LE(units, kTeamUnits) << "team " << team;
      }
    }
  }
}

// A team is several thread blocks that share the documents assigned to it. Checks which calls have teams, and how many
// thread blocks a team has.
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
  // Long documents of equal length may get teams (thread blocks that share documents) if there are fewer documents than
  // thread blocks, or if some thread blocks would get one document more than others.
  EXPECT_EQ(team_blocks(128, 10, 1030, 0), 132);
  EXPECT_EQ(team_blocks(128, 10, 100, 0), 1) << "too short";
  EXPECT_EQ(team_blocks(128, 130, 1030, 0), 1) << "nearly one a block";
  EXPECT_EQ(team_blocks(128, 280, 1024, 0), 22);
  EXPECT_EQ(team_blocks(128, 1000, 1024, 0), 1) << "eight documents where others have seven: the memory is busy";
  EXPECT_EQ(team_blocks(128, 1210, 1024, 0), 1);
  EXPECT_EQ(team_blocks(768, 1000, 1024, 0), 6) << "rows in shared memory";
  // Unequal documents have teams as follows.
  EXPECT_EQ(team_blocks(128, 64, 376, 629), 132);
  EXPECT_EQ(team_blocks(128, 65, 376, 629), 66);
  EXPECT_EQ(team_blocks(128, 1000, 121, 0), 1);
  EXPECT_EQ(team_blocks(128, 1000, 121, 50), 1) << "passages";
  EXPECT_EQ(team_blocks(128, 1000, 121, 140), 6) << "22 teams, which divide the grid, where 16 would do";
  EXPECT_EQ(team_blocks(128, 1000, 376, 629), 6) << "claims would leave a long document";
  // StreamTuning can switch teams on or off. It cannot switch them on for calls in which teams are impossible.
  EXPECT_EQ(team_blocks(128, 1000, 376, 629, StreamTuning{}, /*regular=*/0), 1) << "lists of different lengths";
  EXPECT_EQ(team_blocks(128, 1000, 376, 629, StreamTuning{.teams = 0}), 1);
  EXPECT_EQ(team_blocks(128, 1000, 376, 629, StreamTuning{.assigned_percent = 100}), 1);
  EXPECT_EQ(team_blocks(128, 1000, 20, 0, StreamTuning{.teams = 1}), 6);
  EXPECT_EQ(team_blocks(128, 4097, 20, 0, StreamTuning{.teams = 1}), 1) << "more than there are cut documents";
  EXPECT_EQ(team_blocks(128, 4000, 1000, 900), 1) << "large shares end together by claims";
  EXPECT_EQ(team_blocks(128, 4000, 1000, 900, StreamTuning{.teams = 1}), 2);
  // The number of thread blocks that take part follows from the teams.
  EXPECT_EQ(shares(128, 10, 1030, 0).blocks, 132);
  EXPECT_EQ(shares(128, 10, 1030, 0, StreamTuning{.teams = 0}).blocks, 10);
  EXPECT_EQ(shares(128, 1000, 121, 0).blocks, 132);
  // This grid has 131 thread blocks, because a document has 1.3 token tiles. 131 is prime, so two teams of 65 take
  // part, and one thread block does nothing.
  EXPECT_EQ(team_blocks(768, 100, 21, 0, StreamTuning{.teams = 1}), 65);
  EXPECT_EQ(shares(768, 100, 21, 0, StreamTuning{.teams = 1}).blocks, 130);
}

// Several thread blocks can share a long document, so the grid can have more thread blocks than documents.
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
  // A document of sixteen times the mean length or more counts as sixteen times the mean.
  std::vector<int64_t> lengths(100000, 30);
  lengths[5] = 65535;
  EXPECT_EQ(spread(lengths), 0);
  for (size_t i = 0; i < lengths.size(); i += 1000) lengths[i] = 5000;
  EXPECT_LT(spread(lengths), 10);
  for (size_t i = 0; i < lengths.size(); i += 10) lengths[i] = 400;
  EXPECT_NEAR(static_cast<double>(spread(lengths)), (0.1 * 400 * 400 + 0.9 * 30 * 30) / 67 - 67, 10);
}

TEST(PlanTest, ListsOfWideRowsAreAssignedWhole) {
  const std::vector<QueryGroupShape> lists(32, {1, 1000});
  const auto all_assigned = [&lists](int32_t dim, int64_t spread_tokens) {
    return PlanStreamShares(*PlanScore(ScalarType::kF16, dim, lists, kHopper), {32000, 1000, 121, spread_tokens})
        .all_assigned();
  };
  EXPECT_FALSE(all_assigned(128, 0));
  EXPECT_TRUE(all_assigned(768, 0)) << "a ring that must be emptied between row tiles";
  EXPECT_FALSE(all_assigned(768, 139)) << "unequal documents cost more than that";
}

// Document lengths that are log-uniform from 10 to 2,000 tokens have a mean of 376 tokens and a spread of 629.
TEST(PlanTest, SharesOfUnequalDocumentsLeaveAHalfOpen) {
  const auto shares = [](int32_t dim, int64_t total, int64_t spread_tokens) {
    return PlanStreamShares(*PlanScore(ScalarType::kF16, dim, {{1, total}}, kHopper),
                            {total, /*regular=*/0, 376, spread_tokens});
  };
  const int64_t grid = PlanScore(ScalarType::kF16, 128, {{1, 1000}}, kHopper)->grid();
  EXPECT_NEAR(static_cast<double>(shares(128, 1000, 629).assigned), 500, 1);
  EXPECT_EQ(shares(128, 1000, 629).coarse, 1);
  EXPECT_EQ(shares(128, 1000, 629).fine, 1);
  EXPECT_TRUE(shares(128, 1000, 0).all_assigned());
  EXPECT_TRUE(shares(128, 1000, 255).all_assigned()) << "equal enough";
  EXPECT_FALSE(shares(128, 1000, 256).all_assigned());
  EXPECT_FALSE(shares(768, 1000, 43).all_assigned()) << "bytes matter";
  EXPECT_TRUE(shares(128, 7 * grid - 1, 629).all_assigned()) << "claims take longer than they save";
  EXPECT_FALSE(shares(128, 7 * grid, 629).all_assigned());
  // In large shares, the part that is claimed later grows with the spread of lengths. It is never smaller than for
  // documents of equal length.
  const StreamShares large = shares(128, 20000, 629);
  EXPECT_NEAR(static_cast<double>(large.total - large.assigned), 8.0 * 629 * static_cast<double>(grid) / 376, 10);
  EXPECT_EQ(shares(128, 1000000, 629).assigned, shares(128, 1000000, 0).assigned);
  EXPECT_EQ(large.coarse, 2);
}

}  // namespace
}  // namespace maxsim
