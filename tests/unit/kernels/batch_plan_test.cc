#include "kernels/cuda/host_documents/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/support/values/random_documents.h"

namespace maxsim::cuda {
namespace {

std::vector<int64_t> Offsets(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

Query ListQuery(const std::vector<uint32_t>& ordinals) {
  Query query;
  query.ordinals = ordinals.data();
  query.num_candidates = static_cast<int64_t>(ordinals.size());
  return query;
}

TEST(EndOfBlockTest, TakesWholeDocumentsUntilTheRowsOrTheDocumentsRunOut) {
  const std::vector<int64_t> offsets = Offsets({3, 4, 1, 8, 2});
  EXPECT_EQ(EndOfBatch(offsets.data(), 0, 5, {.rows = 8, .documents = 10}), 3);
  EXPECT_EQ(EndOfBatch(offsets.data(), 0, 5, {.rows = 7, .documents = 10}), 2);
  EXPECT_EQ(EndOfBatch(offsets.data(), 3, 5, {.rows = 8, .documents = 10}), 4);
  EXPECT_EQ(EndOfBatch(offsets.data(), 0, 5, {.rows = 18, .documents = 10}), 5);
  EXPECT_EQ(EndOfBatch(offsets.data(), 0, 5, {.rows = 100, .documents = 2}), 2);
  EXPECT_EQ(EndOfBatch(offsets.data(), 4, 5, {.rows = 100, .documents = 2}), 5);
}

// Checks the rules for every plan. The passes (batches of documents) cover all candidate lists without gaps and stay
// within the capacity. The location of each candidate is the slot of its document.
void Check(const ListPasses& plan, const std::vector<std::vector<uint32_t>>& lists, const std::vector<int64_t>& offsets,
           const BatchCapacity& capacity) {
  int64_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, static_cast<int64_t>(list.size()));
  int64_t next = 0;
  for (const ListPass& pass : plan.passes()) {
    EXPECT_EQ(pass.first, next);
    ASSERT_GT(pass.end, pass.first);
    next = pass.end;
    EXPECT_LE(pass.num_rows, capacity.rows);
    EXPECT_LE(static_cast<int64_t>(pass.slots.size()) * 2, capacity.documents);
    // The slots (places of documents) of a pass are in row order without gaps. No document has two slots.
    int64_t row = 0;
    std::set<uint32_t> documents;
    for (const BatchSlot& slot : pass.slots) {
      EXPECT_EQ(slot.first_row, row);
      row += offsets[slot.document + 1] - offsets[slot.document];
      EXPECT_TRUE(documents.insert(slot.document).second);
    }
    EXPECT_EQ(row, pass.num_rows);
    for (size_t i = 0; i < lists.size(); ++i) {
      for (int64_t p = pass.first; p < std::min(pass.end, static_cast<int64_t>(lists[i].size())); ++p) {
        const uint32_t location = plan.locations(i)[p];
        ASSERT_EQ(location % 2, 0u);
        ASSERT_LT(location / 2, pass.slots.size());
        EXPECT_EQ(pass.slots[location / 2].document, lists[i][static_cast<size_t>(p)]);
      }
    }
  }
  EXPECT_EQ(next, longest);
}

TEST(ListPassesTest, NamesEveryCandidateByItsLocationInItsPass) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 random(seed);
  ListPasses plan;
  for (int round = 0; round < 50; ++round) {
    const std::vector<int64_t> offsets = Offsets(test::RandomLengths(random(), 200, 1, 40));
    std::vector<std::vector<uint32_t>> lists(1 + random() % 5);
    for (auto& list : lists) {
      list.resize(random() % 300);
      for (uint32_t& ordinal : list) ordinal = static_cast<uint32_t>(random() % 200);
    }
    std::vector<Query> queries;
    for (const auto& list : lists) queries.push_back(ListQuery(list));
    const BatchCapacity capacity{.rows = 200 + static_cast<int64_t>(random() % 2000),
                                 .documents = 10 + static_cast<int64_t>(random() % 100)};
    ASSERT_TRUE(plan.Plan(queries, offsets.data(), capacity)) << round;
    Check(plan, lists, offsets, capacity);
  }
}

TEST(ListPassesTest, QueriesWithOneListShareItsLocationsAndItsDocuments) {
  const std::vector<int64_t> offsets = Offsets({5, 5, 5});
  const std::vector<uint32_t> list = {2, 0, 2}, other = {2, 1};
  const std::vector<Query> queries = {ListQuery(list), ListQuery(other), ListQuery(list)};
  ListPasses plan;
  ASSERT_TRUE(plan.Plan(queries, offsets.data(), {.rows = 1000, .documents = 100}));
  EXPECT_EQ(plan.locations(0), plan.locations(2));
  EXPECT_NE(plan.locations(0), plan.locations(1));
  ASSERT_EQ(plan.passes().size(), 1u);
  EXPECT_EQ(plan.passes()[0].num_rows, 15);
  EXPECT_EQ(plan.passes()[0].slots.size(), 3u);
}

TEST(ListPassesTest, SaysWhenTheCandidatesOfOnePositionDoNotFitTogether) {
  const std::vector<int64_t> offsets = Offsets({6, 6, 6});
  const std::vector<uint32_t> first = {0, 0}, second = {0, 1};
  ListPasses plan;
  const std::vector<Query> both = {ListQuery(first), ListQuery(second)};
  EXPECT_FALSE(plan.Plan(both, offsets.data(), {.rows = 11, .documents = 100}));
  EXPECT_FALSE(plan.Plan(both, offsets.data(), {.rows = 100, .documents = 3}));
  EXPECT_TRUE(plan.Plan(both, offsets.data(), {.rows = 12, .documents = 4}));
  // A pass of six rows has room for one document. So the second list, which has two documents, needs two passes.
  EXPECT_TRUE(plan.Plan({&both[1], 1}, offsets.data(), {.rows = 6, .documents = 100}));
  EXPECT_EQ(plan.passes().size(), 2u);
}

TEST(ListPassesTest, EmptyListsNeedNoPass) {
  const std::vector<int64_t> offsets = Offsets({1});
  const std::vector<uint32_t> list = {0};
  Query empty = ListQuery(list);
  empty.num_candidates = 0;
  ListPasses plan;
  EXPECT_TRUE(plan.Plan({&empty, 1}, offsets.data(), {.rows = 1, .documents = 2}));
  EXPECT_TRUE(plan.passes().empty());
}

}  // namespace
}  // namespace maxsim::cuda
