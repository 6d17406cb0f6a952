// Tests the engine's lanes (a lane is the thread and the executors that score one batch) on live collections with
// codes: no search finds a replaced or deleted document, proven answers are exact, and answers name the scanned
// snapshot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/collection/live_documents.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/values/clustered_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::engine {
namespace {

struct LiveCodesParam {
  ScalarType storage = ScalarType::kF16;
  int planes = 4;
  bool factors = false;
};

class LaneCodesChangesTest : public testing::TestWithParam<LiveCodesParam> {
 protected:
  static constexpr int32_t kDim = 64;
  static constexpr int64_t kNumDocuments = test::kSanitized ? 150 : 400;
  static constexpr int32_t kTopK = 10;

  LaneCodesChangesTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        random_(seed_),
        clustered_(seed_, 2 * kNumDocuments, kDim, GetParam().storage),
        backend_(MakeCpuBackend()),
        engine_(MakeEngine(backend_.get())) {
    const bool is_i8 = GetParam().storage == ScalarType::kI8;
    options_ = {.max_shard_bytes = 60'000,
                .storage = GetParam().storage,
                .codes = {.planes = GetParam().planes, .rotation_seed = 5, .factors = GetParam().factors}};
    // Builds the collection with one half of the documents, and writes the other half to the live collection.
    const test::ClusteredDocuments base(seed_, kNumDocuments, kDim, GetParam().storage);
    test::BuildCorpus(folder_.path(), is_i8 ? base.values : base.documents, options_);
    base_ = test::LoadCorpus(folder_.path(), backend_.get());
    EXPECT_GE(base_->num_parts(), 2u);
    live_ = std::make_unique<test::LiveCorpus>(backend_.get(), base_, base.documents, options_, 70);
  }

  // Writes, replaces and deletes documents.
  void Change(int count) {
    for (int change = 0; change < count; ++change) {
      const std::string id = "doc-" + std::to_string(random_() % static_cast<uint64_t>(kNumDocuments * 3 / 2));
      if (random_() % 4 == 0) {
        live_->Delete(id);
      } else {
        live_->Upsert(id, clustered_.documents, static_cast<int64_t>(random_() % (2 * kNumDocuments)));
      }
    }
  }

  JobQuery Query(CandidatesPtr candidates = WholeCollection()) {
    return MakeJobQuery(clustered_.Query(), std::move(candidates), kTopK);
  }
  static JobQuery Refined(JobQuery query, uint64_t documents) {
    query.refinement.documents = static_cast<int32_t>(documents);
    return query;
  }
  static JobQuery Proven(JobQuery query, int32_t documents, uint64_t budget) {
    query.refinement = {.documents = documents, .require_proof = true, .budget = static_cast<int32_t>(budget)};
    return query;
  }
  Lane& lane() { return engine_->lane(0); }

  // Checks that every hit is a document of the snapshot, and that none comes twice.
  static void ExpectAlive(const store::Collection& snapshot, const JobQueryResult& answer) {
    std::set<uint64_t> ordinals;
    for (const Hit& hit : answer.hits) {
      EXPECT_EQ(snapshot.Find(snapshot.string_id(hit.ordinal)), hit.ordinal);
      EXPECT_EQ(hit.position, hit.ordinal);
      EXPECT_TRUE(ordinals.insert(hit.ordinal).second);
    }
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  std::mt19937_64 random_;
  test::ClusteredDocuments clustered_;
  const test::TemporaryFolder folder_;
  test::CorpusOptions options_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Engine> engine_;
  std::shared_ptr<const store::Collection> base_;
  std::unique_ptr<test::LiveCorpus> live_;
};

TEST_P(LaneCodesChangesTest, WhatWasWrittenIsScannedAndWhatIsGoneIsNeverFound) {
  int64_t num_scanned = 0;
  int64_t num_proven = 0;
  for (const int changes : {0, 1, 5, 200, 900}) {
    SCOPED_TRACE(changes);
    Change(changes);
    const auto snapshot = live_->Snapshot();
    EXPECT_EQ(snapshot->code_planes(), GetParam().planes);
    const uint64_t count = snapshot->num_documents();
    for (int idx = 0; idx < (test::kSanitized ? 2 : 4); ++idx) {
      const JobQuery query = Query();
      const JobQueryResult exact = ExecuteOne(lane(), snapshot, query);
      for (const JobQuery& asked : {Refined(query, 40), Refined(query, count - 1), Proven(query, 20, count / 2)}) {
        BatchStats stats;
        std::vector<std::unique_ptr<Job>> jobs;
        jobs.push_back(MakeJob(snapshot, {asked}));
        const auto results = Execute(lane(), jobs, &stats);
        ASSERT_TRUE(results[0].ok()) << results[0].status();
        const JobQueryResult& answer = results[0]->queries[0];
        ASSERT_TRUE(answer.refinement.has_value());
        ++num_scanned;
        EXPECT_EQ(answer.refinement->planes, GetParam().planes);
        EXPECT_EQ(stats.refinements.token_pairs, 8 * snapshot->num_tokens()) << "of documents that are alive";
        ExpectAlive(*snapshot, answer);
        num_proven += answer.refinement->is_proven ? 1 : 0;
        // The answer must be exact if it is proven, or if all documents but one may be refined (scored exactly).
        if (answer.refinement->is_proven || asked.refinement.documents == static_cast<int32_t>(count) - 1) {
          ExpectSameResult(exact, answer);
        }
      }
      // If as many documents may be refined as the snapshot has, all are scored exactly, without a scan.
      const JobQueryResult all = ExecuteOne(lane(), snapshot, Refined(query, count));
      EXPECT_FALSE(all.refinement.has_value());
      ExpectSameResult(exact, all);
    }
  }
  EXPECT_GT(num_proven, GetParam().planes == 4 ? num_scanned / 3 : -1) << "4 planes prove most";
}

TEST_P(LaneCodesChangesTest, ListsAreScannedInShardsAndSegments) {
  Change(300);
  const auto snapshot = live_->Snapshot();
  std::vector<uint64_t> ordinals;
  for (const std::string& id : live_->expected().ids()) {
    if (random_() % 3 != 0) ordinals.push_back(*snapshot->Find(id));
  }
  const JobQuery query = Query(Ordinals(ordinals, 2));
  const JobQueryResult exact = ExecuteOne(lane(), snapshot, query);
  const JobQueryResult answer = ExecuteOne(lane(), snapshot, Refined(query, ordinals.size() - 1));
  ASSERT_TRUE(answer.refinement.has_value());
  ExpectSameResult(exact, answer);
}

// If a call may have only a few token pairs, scans are given lists of the remaining documents instead of masks.
TEST_P(LaneCodesChangesTest, SmallCallsGiveTheSameAnswers) {
  Change(500);
  const auto snapshot = live_->Snapshot();
  const auto small = MakeEngine(backend_.get(), {.max_candidates = 37}, 500);
  for (const bool prove : {false, true}) {
    const JobQuery query = prove ? Proven(Query(), 20, 100) : Refined(Query(), 60);
    const JobQueryResult expected = ExecuteOne(lane(), snapshot, query);
    const JobQueryResult answer = ExecuteOne(small->lane(0), snapshot, query);
    ExpectSameResult(expected, answer);
    ASSERT_TRUE(expected.refinement.has_value() && answer.refinement.has_value());
    EXPECT_EQ(expected.refinement->num_documents, answer.refinement->num_documents);
    EXPECT_EQ(expected.refinement->is_proven, answer.refinement->is_proven);
    EXPECT_EQ(expected.refinement->outside, answer.refinement->outside);
  }
}

TEST_P(LaneCodesChangesTest, JobsOfSeveralSnapshotsAreScannedTogether) {
  Change(50);
  const auto earlier = live_->Snapshot();
  std::vector<uint64_t> ordinals;
  for (const std::string& id : live_->expected().ids()) ordinals.push_back(*earlier->Find(id));
  Change(300);
  const auto later = live_->Snapshot();

  const JobQuery list = Refined(Query(Ordinals(ordinals)), 60);
  const JobQuery scan = Refined(Query(), 60);
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(earlier, {list}));
  jobs.push_back(MakeJob(later, {scan}));
  jobs.push_back(MakeJob(earlier, {scan}));
  const auto results = Execute(lane(), jobs);
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->queries[0].refinement.has_value());
  }
  EXPECT_EQ(results[0]->collection, nullptr) << "a list is of its own snapshot";
  ExpectSameResult(ExecuteOne(lane(), earlier, list), results[0]->queries[0]);
  EXPECT_EQ(results[1]->collection, nullptr);
  ExpectSameResult(ExecuteOne(lane(), later, scan), results[1]->queries[0]);
  EXPECT_EQ(results[2]->collection, later) << "a scan is of the latest snapshot";
  ExpectSameResult(results[1]->queries[0], results[2]->queries[0]);
  ExpectAlive(*later, results[2]->queries[0]);
}

// A batch is scanned only if the first job's snapshot has more documents than are refined (scored exactly). In both
// orders of the two jobs, the answers must be exact.
TEST_P(LaneCodesChangesTest, WhetherABatchIsScannedIsDecidedByDocuments) {
  const auto earlier = live_->Snapshot();
  for (int64_t n = 0; n < 30; ++n) live_->Upsert("new-" + std::to_string(n), clustered_.documents, n);
  const auto later = live_->Snapshot();
  const JobQuery query = Refined(Query(), earlier->num_documents());
  for (const bool earlier_first : {false, true}) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(MakeJob(earlier_first ? earlier : later, {query}));
    jobs.push_back(MakeJob(earlier_first ? later : earlier, {query}));
    const auto results = Execute(lane(), jobs);
    JobQuery plain = query;
    plain.refinement = {};
    const JobQueryResult exact = ExecuteOne(lane(), later, plain);
    for (const auto& result : results) {
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectSameResult(exact, result->queries[0]);
    }
  }
  for (int64_t n = 0; n < 200 && n < kNumDocuments; ++n) live_->Delete("doc-" + std::to_string(n));
  // The first job's snapshot has more documents than are refined, so a scan is possible. But the last job's snapshot,
  // which is scored, has fewer.
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(later, {query}));
  jobs.push_back(MakeJob(live_->Snapshot(), {query}));
  for (const auto& result : Execute(lane(), jobs)) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->queries[0].refinement.has_value());
    EXPECT_EQ(result->queries[0].hits.size(), static_cast<size_t>(kTopK));
  }
}

INSTANTIATE_TEST_SUITE_P(Codes, LaneCodesChangesTest,
                         testing::Values(LiveCodesParam{ScalarType::kF16, 4, false},
                                         LiveCodesParam{ScalarType::kF16, 1, false},
                                         LiveCodesParam{ScalarType::kF32, 2, true},
                                         LiveCodesParam{ScalarType::kBF16, 4, true},
                                         LiveCodesParam{ScalarType::kI8, 4, false}),
                         [](const auto& param_info) {
                           return std::string(Name(param_info.param.storage)) +
                                  std::to_string(param_info.param.planes) + (param_info.param.factors ? "f" : "");
                         });

}  // namespace
}  // namespace maxsim::engine
