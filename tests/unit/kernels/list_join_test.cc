#include "kernels/plan/list_join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace maxsim {
namespace {

// Returns `count` different ordinals of begin .. end, in no order.
std::vector<uint32_t> Draw(uint32_t seed, size_t count, uint32_t begin, uint32_t end) {
  std::vector<uint32_t> ordinals(end - begin);
  std::iota(ordinals.begin(), ordinals.end(), begin);
  std::mt19937 random(seed);
  std::shuffle(ordinals.begin(), ordinals.end(), random);
  ordinals.resize(count);
  return ordinals;
}

std::vector<CandidateList> ListsOf(const std::vector<std::vector<uint32_t>>& lists, int64_t num_query_tiles) {
  std::vector<CandidateList> views;
  for (const std::vector<uint32_t>& list : lists) views.push_back({list, num_query_tiles});
  return views;
}

int64_t UnionOf(const std::vector<std::vector<uint32_t>>& lists, const ListJoin& join) {
  std::set<uint32_t> ordinals;
  for (int32_t i : join.lists) ordinals.insert(lists[i].begin(), lists[i].end());
  return static_cast<int64_t>(ordinals.size());
}

// A join is a set of candidate lists that are scored together. Checks that every join keeps the limits for joins, and
// that no list is in two joins.
void ExpectWellFormed(const std::vector<std::vector<uint32_t>>& lists, const std::vector<CandidateList>& views,
                      const std::vector<ListJoin>& joins) {
  std::set<int32_t> seen;
  for (const ListJoin& join : joins) {
    EXPECT_GE(join.lists.size(), 2u);
    EXPECT_LE(static_cast<int64_t>(join.lists.size()), kMaxJoinedLists);
    EXPECT_LE(join.num_query_tiles, kJoinedQueryTiles);
    int64_t blocks = 0, most = 0;
    for (int32_t i : join.lists) {
      EXPECT_TRUE(seen.insert(i).second) << "list " << i << " is in two joins";
      blocks += views[i].num_query_tiles;
      most += static_cast<int64_t>(lists[i].size());
    }
    EXPECT_EQ(join.num_query_tiles, blocks);
    EXPECT_EQ(join.most, most);
    EXPECT_LE(join.expected, join.most);
    for (int32_t i : join.lists) EXPECT_GE(join.expected, static_cast<int64_t>(lists[i].size()));
  }
}

TEST(ListJoinTest, ListsThatOverlapAreJoinedByFours) {
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t i = 0; i < 10; ++i) lists.push_back(Draw(i, 1000, 0, 1500));
  const std::vector<CandidateList> views = ListsOf(lists, 1);
  const std::vector<ListJoin> joins = FindJoins(views);
  ExpectWellFormed(lists, views, joins);
  ASSERT_EQ(joins.size(), 3u);
  EXPECT_EQ(joins[0].lists.size(), 4u);
  EXPECT_EQ(joins[1].lists.size(), 4u);
  EXPECT_EQ(joins[2].lists.size(), 2u);
  for (const ListJoin& join : joins) {
    EXPECT_NEAR(static_cast<double>(join.expected), static_cast<double>(UnionOf(lists, join)), 0.25 * 1500);
  }
}

TEST(ListJoinTest, ListsWithoutLikenessStayApart) {
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t i = 0; i < 16; ++i) lists.push_back(Draw(i, 1000, i * 1000, (i + 1) * 1000));
  EXPECT_TRUE(FindJoins(ListsOf(lists, 1)).empty());
  lists.clear();
  for (uint32_t i = 0; i < 16; ++i) lists.push_back(Draw(i, 1000, 0, 1'000'000));
  EXPECT_TRUE(FindJoins(ListsOf(lists, 1)).empty());
}

// Lists with an even index draw their documents from one range, lists with an odd index from another. Each list must be
// joined only with lists of its own range.
TEST(ListJoinTest, EachListFindsItsLike) {
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t i = 0; i < 8; ++i) lists.push_back(Draw(i, 800, i % 2 * 5000, i % 2 * 5000 + 1000));
  const std::vector<CandidateList> views = ListsOf(lists, 1);
  const std::vector<ListJoin> joins = FindJoins(views);
  ExpectWellFormed(lists, views, joins);
  ASSERT_EQ(joins.size(), 2u);
  for (const ListJoin& join : joins) {
    ASSERT_EQ(join.lists.size(), 4u);
    for (int32_t i : join.lists) EXPECT_EQ(i % 2, join.lists[0] % 2);
  }
}

TEST(ListJoinTest, LongQueriesLeaveRoomForFewerLists) {
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t i = 0; i < 4; ++i) lists.push_back(Draw(i, 900, 0, 1000));
  const std::vector<CandidateList> of_two = ListsOf(lists, 2);
  const std::vector<ListJoin> joins = FindJoins(of_two);
  ExpectWellFormed(lists, of_two, joins);
  ASSERT_EQ(joins.size(), 2u);
  EXPECT_TRUE(FindJoins(ListsOf(lists, 3)).empty());
  std::vector<CandidateList> mixed = ListsOf(lists, 3);
  mixed[2].num_query_tiles = 1;
  const std::vector<ListJoin> uneven = FindJoins(mixed);
  ExpectWellFormed(lists, mixed, uneven);
  ASSERT_EQ(uneven.size(), 1u);
  EXPECT_EQ(uneven[0].lists, (std::vector<int32_t>{0, 2}));
}

// Lists of one document, of the same document three times, of none, and of five documents.
TEST(ListJoinTest, SmallListsAreCountedExactlyEnough) {
  const std::vector<std::vector<uint32_t>> lists = {{7}, {7}, {7, 7, 7}, {}, {4'294'967'295u}, {1, 2, 3, 4, 5}};
  const std::vector<CandidateList> views = ListsOf(lists, 1);
  const std::vector<ListJoin> joins = FindJoins(views);
  ExpectWellFormed(lists, views, joins);
  ASSERT_EQ(joins.size(), 1u);
  EXPECT_EQ(joins[0].lists, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(joins[0].expected, 3);  // as long as the longest list
  EXPECT_TRUE(FindJoins({}).empty());
  EXPECT_TRUE(FindJoins(absl::MakeConstSpan(views).first(1)).empty());
}

}  // namespace
}  // namespace maxsim
