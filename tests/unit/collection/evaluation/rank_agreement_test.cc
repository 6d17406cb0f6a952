#include "collection/evaluation/rank_agreement.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace maxsim::evaluation {
namespace {

using Scores = std::vector<float>;
using Ordinals = std::vector<uint64_t>;

TEST(SpearmanTest, LooksAtTheOrderOnly) {
  EXPECT_DOUBLE_EQ(Spearman(Scores{1, 2, 3, 4}, Scores{-5, 0, 0.1F, 1000}), 1);
  EXPECT_DOUBLE_EQ(Spearman(Scores{1, 2, 3, 4}, Scores{4, 3, 2, 1}), -1);
}

TEST(SpearmanTest, MatchesHandComputation) {
  // Without equal scores, Spearman's coefficient is 1 - 6 sum d^2 / (n (n^2 - 1)). Here the ranks differ by d = 1, 1,
  // 0, 0, 0.
  EXPECT_DOUBLE_EQ(Spearman(Scores{1, 2, 3, 4, 5}, Scores{2, 1, 3, 4, 5}), 1 - 6.0 * 2 / (5 * 24));
  // The ranks are 0, 1.5, 1.5, 3 and 0, 1, 2, 3. Their covariance (times 4) is 4.5, and their variances (times 4) are
  // 4.5 and 5.
  EXPECT_NEAR(Spearman(Scores{1, 2, 2, 3}, Scores{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-12);
}

TEST(SpearmanTest, NothingToRankIsAgreedUpon) {
  EXPECT_EQ(Spearman(Scores{}, Scores{}), 1);
  EXPECT_EQ(Spearman(Scores{3}, Scores{4}), 1);
  EXPECT_EQ(Spearman(Scores{3, 3}, Scores{4, 4}), 1);
  EXPECT_EQ(Spearman(Scores{3, 3}, Scores{4, 5}), 0);
}

TEST(OverlapTest, CountsWhatIsShared) {
  EXPECT_DOUBLE_EQ(Overlap(Ordinals{1, 2, 3, 4}, Ordinals{4, 3, 9, 8}), 0.5);
  EXPECT_DOUBLE_EQ(Overlap(Ordinals{1, 2, 3}, Ordinals{3, 1, 2}), 1);
  EXPECT_DOUBLE_EQ(Overlap(Ordinals{1, 2}, Ordinals{3, 4}), 0);
  EXPECT_DOUBLE_EQ(Overlap(Ordinals{1}, Ordinals{1, 2}), 0.5) << "the larger list counts";
  EXPECT_DOUBLE_EQ(Overlap(Ordinals{}, Ordinals{}), 1);
  EXPECT_DOUBLE_EQ(Overlap(Ordinals{}, Ordinals{1}), 0);
}

}  // namespace
}  // namespace maxsim::evaluation
