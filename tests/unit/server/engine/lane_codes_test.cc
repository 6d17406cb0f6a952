// Tests the engine's lanes (a lane is the thread and the executors that score one batch) on collections with codes:
// which documents are scanned, which are scored exactly, and which answers are proven to be exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/codes/codes.h"
#include "kernels/rank_order.h"
#include "tests/support/collection/coded_collection.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/values/clustered_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::engine {
namespace {

struct LaneCodesParam {
  ScalarType storage = ScalarType::kF16;
  bool factors = false;
};

class LaneCodesTest : public testing::TestWithParam<LaneCodesParam> {
 protected:
  static constexpr int32_t kDim = 64;
  static constexpr int64_t kNumDocuments = test::kSanitized ? 300 : 800;
  static constexpr int32_t kTopK = 10;

  LaneCodesTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        clustered_(seed_, kNumDocuments, kDim, GetParam().storage),
        backend_(MakeCpuBackend()),
        devices_(backend_.get()),
        engine_(MakeEngine(backend_.get())) {
    test::RandomDocuments built = clustered_.documents;
    if (GetParam().storage == ScalarType::kI8) built = clustered_.values;
    test::BuildCorpus(folder_.path(), built, {.max_shard_bytes = 200'000, .storage = GetParam().storage});
    plain_ = test::LoadCorpus(folder_.path(), backend_.get());
    EXPECT_GE(plain_->num_parts(), 2u);
  }

  std::shared_ptr<const store::Collection> Coded(int planes) const {
    return test::WithCodes(*plain_, devices_, planes, GetParam().factors);
  }

  // Returns a query over the whole collection, or over a list.
  JobQuery Query(CandidatesPtr candidates = WholeCollection(), bool want_alignments = false) {
    test::RandomQuery query = clustered_.Query();
    if (clustered_.generator() % 2 == 0) query.weights = test::MixedWeights(seed_, 8);
    return MakeJobQuery(query, std::move(candidates), kTopK, want_alignments);
  }

  static JobQuery Refined(JobQuery query, int32_t documents) {
    query.refinement.documents = documents;
    return query;
  }
  static JobQuery Proven(JobQuery query, int32_t documents, int32_t budget) {
    query.refinement = {.documents = documents, .require_proof = true, .budget = budget};
    return query;
  }

  std::vector<uint64_t> Shuffled(size_t count) {
    std::vector<uint64_t> ordinals(kNumDocuments);
    std::iota(ordinals.begin(), ordinals.end(), uint64_t{0});
    std::shuffle(ordinals.begin(), ordinals.end(), clustered_.generator);
    ordinals.resize(count);
    return ordinals;
  }

  Lane& lane() { return engine_->lane(0); }
  JobQueryResult Exact(const JobQuery& query) {
    JobQuery all = query;
    all.refinement = {};
    return ExecuteOne(lane(), plain_, all);
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  test::ClusteredDocuments clustered_;
  const test::TemporaryFolder folder_;
  const std::unique_ptr<Backend> backend_;
  store::DeviceSet devices_;
  const std::unique_ptr<Engine> engine_;
  std::shared_ptr<const store::Collection> plain_;
};

TEST_P(LaneCodesTest, ProvenAnswersAreTheExactOnes) {
  int64_t num_proven = 0;
  for (const int planes : {1, 2, 4}) {
    SCOPED_TRACE(testing::Message() << planes << " planes");
    const auto coded = Coded(planes);
    for (int idx = 0; idx < (test::kSanitized ? 3 : 12); ++idx) {
      const JobQuery query = Query();
      const JobQueryResult exact = Exact(query);
      for (const JobQuery& asked : {Refined(query, 100), Proven(query, 40, kNumDocuments / 2)}) {
        const JobQueryResult answer = ExecuteOne(lane(), coded, asked);
        ASSERT_TRUE(answer.refinement.has_value());
        const Refinement& refinement = *answer.refinement;
        EXPECT_EQ(refinement.planes, planes);
        EXPECT_EQ(refinement.outside_is_bound, planes == 4 || asked.refinement.require_proof);
        ASSERT_TRUE(refinement.outside.has_value());
        ASSERT_EQ(answer.hits.size(), static_cast<size_t>(kTopK));
        if (!refinement.is_proven) continue;
        ++num_proven;
        EXPECT_LT(*refinement.outside, answer.hits.back().score);
        ExpectSameResult(exact, answer);
      }
    }
  }
  EXPECT_GT(num_proven, test::kSanitized ? 0 : 8) << "4 planes prove most";
}

// Each hit must have its exact score, whatever the scan has chosen.
TEST_P(LaneCodesTest, HitsHaveTheBitsOfARerankOfThem) {
  for (const int planes : {1, 2, 4}) {
    const auto coded = Coded(planes);
    for (int idx = 0; idx < 4; ++idx) {
      const JobQuery query = Query(WholeCollection(), true);
      const JobQueryResult answer = ExecuteOne(lane(), coded, Refined(query, 60));
      EXPECT_EQ(answer.refinement->num_documents, 60u);
      JobQuery listed = query;
      std::vector<uint64_t> ordinals;
      for (const Hit& hit : answer.hits) {
        EXPECT_EQ(hit.position, hit.ordinal);
        ordinals.push_back(hit.ordinal);
      }
      std::sort(ordinals.begin(), ordinals.end());
      listed.candidates = Ordinals(ordinals);
      JobQueryResult expected = ExecuteOne(lane(), plain_, listed);
      for (Hit& hit : expected.hits) hit.position = hit.ordinal;
      ExpectSameResult(expected, answer);
    }
  }
}

TEST_P(LaneCodesTest, FewCandidatesAreScoredWithoutAScan) {
  const auto coded = Coded(4);
  const JobQuery whole = Query(WholeCollection(), true);
  const JobQuery list = Query(Ordinals(Shuffled(100), 3), true);
  const JobQuery inline_documents = Query(Inline(clustered_.documents), true);
  for (const JobQuery& query : {Refined(whole, kNumDocuments), Refined(whole, kNumDocuments + 1), whole,
                                Refined(list, 100), Refined(inline_documents, kTopK), Proven(list, 200, 300)}) {
    const JobQueryResult answer = ExecuteOne(lane(), coded, query);
    EXPECT_FALSE(answer.refinement.has_value());
    ExpectSameResult(Exact(query), answer);
  }
}

TEST_P(LaneCodesTest, CollectionsWithoutCodesIgnoreIt) {
  const JobQuery query = Query();
  BatchStats stats;
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(plain_, {Proven(query, kTopK, 40)}));
  const auto results = Execute(lane(), jobs, &stats);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_FALSE(results[0]->queries[0].refinement.has_value());
  ExpectSameResult(Exact(query), results[0]->queries[0]);
  EXPECT_EQ(stats.refinements.scans, (std::array<uint64_t, 3>{}));
}

TEST_P(LaneCodesTest, ListsAreScannedAndKeepTheirPositions) {
  const auto coded = Coded(4);
  for (int idx = 0; idx < 5; ++idx) {
    const JobQuery query = Query(Ordinals(Shuffled(kNumDocuments * 3 / 4), 3), true);
    const JobQueryResult answer = ExecuteOne(lane(), coded, Proven(query, 30, kNumDocuments / 2));
    ASSERT_TRUE(answer.refinement.has_value());
    EXPECT_LE(answer.refinement->num_documents, static_cast<uint64_t>(kNumDocuments / 2));
    for (const Hit& hit : answer.hits) {
      ASSERT_EQ(hit.position % 3, 0u);
      EXPECT_EQ(query.candidates->ordinals[hit.position / 3], hit.ordinal);
    }
    if (answer.refinement->is_proven) ExpectSameResult(Exact(query), answer);
  }
}

TEST_P(LaneCodesTest, AProofTakesFurtherCandidatesWithinItsBudget) {
  const auto coded = Coded(4);
  int64_t num_proven = 0;
  for (int idx = 0; idx < 10; ++idx) {
    const JobQuery query = Query(WholeCollection(), true);
    const JobQueryResult enough = ExecuteOne(lane(), coded, Proven(query, kTopK, kNumDocuments - 1));
    const JobQueryResult tight = ExecuteOne(lane(), coded, Proven(query, kTopK, kTopK + 3));
    EXPECT_LE(tight.refinement->num_documents, static_cast<uint64_t>(kTopK + 3));
    if (!enough.refinement->is_proven) continue;
    ++num_proven;
    ExpectSameResult(Exact(query), enough);
    // With one candidate less to score exactly, the bound of the left-out documents cannot be lower.
    const auto needed = static_cast<int32_t>(enough.refinement->num_documents);
    if (needed <= kTopK + 1) continue;
    const JobQueryResult less = ExecuteOne(lane(), coded, Proven(query, kTopK, needed - 1));
    EXPECT_LE(less.refinement->num_documents, static_cast<uint64_t>(needed - 1));
    EXPECT_GE(*less.refinement->outside, *enough.refinement->outside);
  }
  EXPECT_GT(num_proven, 0);
}

TEST_P(LaneCodesTest, TiesAreNotProvenAndRankByPosition) {
  // All documents are equal, so those with the lowest positions are the best.
  test::RandomDocuments same =
      test::MakeDocuments(seed_, ScalarType::kF16, kDim, std::vector<int64_t>(kNumDocuments, int64_t{2}));
  for (int64_t token = 2; token < same.tokens.num_tokens(); ++token) {
    same.tokens.CopyRow(same.tokens, token % 2, token);
  }
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), same, {.max_shard_bytes = 100'000});
  const auto plain = test::LoadCorpus(folder.path(), backend_.get());
  const auto coded = test::WithCodes(*plain, devices_, 4, GetParam().factors);
  const JobQuery query = MakeJobQuery(test::MakeQuery(seed_ + 1, ScalarType::kF16, kDim, 4), WholeCollection(), kTopK);
  const JobQueryResult answer = ExecuteOne(lane(), coded, Proven(query, 20, kNumDocuments - 1));
  EXPECT_FALSE(answer.refinement->is_proven);
  EXPECT_EQ(answer.refinement->num_documents, static_cast<uint64_t>(kNumDocuments - 1));
  ExpectSameResult(ExecuteOne(lane(), plain, query), answer);
}

TEST_P(LaneCodesTest, ABatchOfEveryKindIsAnsweredAsEachAlone) {
  const auto coded = Coded(2);
  const CandidatesPtr list = Ordinals(Shuffled(kNumDocuments / 2), 2);
  std::vector<JobQuery> queries;
  queries.push_back(Refined(Query(), 50));
  queries.push_back(Query(Inline(clustered_.documents), true));
  queries.push_back(Proven(Query(list, true), 20, 90));
  queries.push_back(Query());
  queries.push_back(Refined(Query(list), 33));
  queries.push_back(Proven(Query(WholeCollection(), true), 17, 140));
  queries.push_back(Query(Ordinals({5, 7, 1})));
  const std::unique_ptr<Engine> tight = MakeEngine(backend_.get(), {.max_queries = 2, .max_candidates = 64}, 20'000);
  for (Lane* other : {&lane(), &tight->lane(0)}) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(MakeJob(coded, queries));
    jobs.push_back(MakeJob(coded, {queries[5], queries[0]}));
    BatchStats stats;
    const auto results = Execute(*other, jobs, &stats);
    ASSERT_TRUE(results[0].ok()) << results[0].status();
    ASSERT_TRUE(results[1].ok()) << results[1].status();
    for (size_t idx = 0; idx < queries.size(); ++idx) {
      SCOPED_TRACE(idx);
      const JobQueryResult alone = ExecuteOne(lane(), coded, queries[idx]);
      ExpectSameResult(alone, results[0]->queries[idx]);
      EXPECT_EQ(alone.refinement.has_value(), results[0]->queries[idx].refinement.has_value());
      if (!alone.refinement.has_value()) continue;
      EXPECT_EQ(alone.refinement->num_documents, results[0]->queries[idx].refinement->num_documents);
      EXPECT_EQ(alone.refinement->outside, results[0]->queries[idx].refinement->outside);
      EXPECT_EQ(alone.refinement->is_proven, results[0]->queries[idx].refinement->is_proven);
    }
    ExpectSameResult(results[0]->queries[5], results[1]->queries[0]);
    EXPECT_EQ(stats.num_queries, 9);
    EXPECT_EQ(stats.refinements.scans, (std::array<uint64_t, 3>{0, 6, 0}));
    EXPECT_GT(stats.refinements.documents, 0u);
    EXPECT_GT(stats.refinements.token_pairs, 0u);
  }
}

TEST_P(LaneCodesTest, AJobThatFailsLeavesTheOthers) {
  const auto coded = Coded(1);
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(coded, {Refined(Query(), 50)}));
  jobs.push_back(MakeJob(coded, {Refined(Query(), kTopK - 1)}));
  jobs.push_back(MakeJob(coded, {Refined(Query(Ordinals({kNumDocuments}, 1)), 50)}));
  jobs.push_back(MakeJob(coded, {Refined(Query(), 50)}));
  jobs[3]->cancelled = std::make_shared<std::atomic<bool>>(true);
  const auto results = Execute(lane(), jobs);
  EXPECT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_THAT(std::string(results[1].status().message()), testing::HasSubstr("refinement.documents is 9"));
  EXPECT_TRUE(absl::IsInvalidArgument(results[2].status())) << results[2].status();
  EXPECT_TRUE(absl::IsCancelled(results[3].status())) << results[3].status();
}

INSTANTIATE_TEST_SUITE_P(Storage, LaneCodesTest,
                         testing::Values(LaneCodesParam{ScalarType::kF16, false},
                                         LaneCodesParam{ScalarType::kF16, true}, LaneCodesParam{ScalarType::kI8, false},
                                         LaneCodesParam{ScalarType::kBF16, false},
                                         LaneCodesParam{ScalarType::kF32, false}),
                         [](const testing::TestParamInfo<LaneCodesParam>& param) {
                           return std::string(Name(param.param.storage)) + (param.param.factors ? "Factors" : "");
                         });

}  // namespace
}  // namespace maxsim::engine
