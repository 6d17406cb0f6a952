// Tests the engine's lanes (a lane is the thread and the executors that score one batch) on the CPU backend: answers
// must agree with FP64, and have the same bits however the work is divided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/rank_order.h"
#include "kernels/scalar_type.h"
#include "tests/support/engine_fixture.h"

namespace maxsim::engine {
namespace {

constexpr int32_t kDim = 24;
constexpr int64_t kNumDocuments = 300;

class LaneNumbersTest : public testing::TestWithParam<ScalarType> {
 protected:
  LaneNumbersTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        values_(test::SmallDocuments(seed_, kNumDocuments, ValueType(), kDim)),
        documents_(test::StoredAs(values_, GetParam())),
        backend_(MakeCpuBackend()) {
    collection_ = Build(values_, 10'000, 3);
    engine_ = MakeEngine(backend_.get());
  }

  // Returns the type of the values from which a collection is built: the storage type or, for i8, the type of the
  // vectors before quantising.
  static ScalarType ValueType() { return QueryType(GetParam()); }

  // Builds and loads the documents in shards of at most `max_shard_bytes`.
  std::shared_ptr<const store::Collection> Build(const test::RandomDocuments& documents, int64_t max_shard_bytes,
                                                 size_t min_parts) {
    folders_.push_back(std::make_unique<test::TemporaryFolder>());
    test::BuildCorpus(folders_.back()->path(), documents, {.max_shard_bytes = max_shard_bytes, .storage = GetParam()});
    auto collection = test::LoadCorpus(folders_.back()->path(), backend_.get());
    EXPECT_GE(collection->generation().parts().size(), min_parts);
    return collection;
  }

  test::RandomQuery Query(uint64_t number, int32_t num_tokens, bool weights = false) const {
    test::RandomQuery query = test::MakeQuery(seed_ + number, GetParam(), kDim, num_tokens);
    if (weights) query.weights = test::MixedWeights(seed_ + number, num_tokens);
    return query;
  }

  Lane& lane() { return engine_->lane(0); }

  // Compares an answer with scores computed in FP64. The candidates are `ordinals`, and candidate n has position n *
  // gap.
  void ExpectMatchesReference(const test::RandomQuery& query, const std::vector<uint64_t>& ordinals, uint32_t gap,
                              int32_t top_k, const JobQueryResult& result) {
    const std::vector<uint32_t> candidates(ordinals.begin(), ordinals.end());
    const maxsim::Query view = query.view(top_k, &candidates);
    const std::vector<ReferenceScore> scores = ReferenceScores(documents_.view(), view);
    ASSERT_EQ(result.hits.size(), std::min(ordinals.size(), static_cast<size_t>(top_k)));
    double worst = INFINITY;
    std::vector<bool> seen(ordinals.size());
    for (size_t idx = 0; idx < result.hits.size(); ++idx) {
      const Hit& hit = result.hits[idx];
      ASSERT_EQ(hit.position % gap, 0u);
      const size_t candidate = hit.position / gap;
      ASSERT_LT(candidate, ordinals.size());
      EXPECT_EQ(hit.ordinal, ordinals[candidate]);
      EXPECT_FALSE(seen[candidate]) << "position " << hit.position << " twice";
      seen[candidate] = true;
      EXPECT_NEAR(hit.score, scores[candidate].score, 1e-5 * scores[candidate].magnitude);
      if (idx != 0) {
        const Hit& before = result.hits[idx - 1];
        EXPECT_TRUE(RanksBefore(before, hit));
      }
      worst = std::min(worst, scores[candidate].score);
    }
    for (size_t candidate = 0; candidate < ordinals.size(); ++candidate) {
      if (!seen[candidate]) {
        EXPECT_LE(scores[candidate].score, worst + 2e-5 * scores[candidate].magnitude) << candidate;
      }
    }
    ExpectAlignmentsMatchReference(query, result);
  }

  void ExpectAlignmentsMatchReference(const test::RandomQuery& query, const JobQueryResult& result) {
    if (result.matches.empty()) return;
    const auto num_tokens = static_cast<size_t>(query.tokens.num_tokens());
    ASSERT_EQ(result.matches.size(), result.hits.size() * num_tokens);
    for (size_t idx = 0; idx < result.hits.size(); ++idx) {
      const auto expected =
          ReferenceAlign(documents_.view(), query.view(1), static_cast<uint32_t>(result.hits[idx].ordinal));
      for (size_t token = 0; token < num_tokens; ++token) {
        const TokenMatch& match = result.matches[idx * num_tokens + token];
        // Rows are unit vectors, so similarities are at most 1, and an absolute tolerance will do.
        EXPECT_NEAR(match.similarity, expected[token].similarity, 2e-5);
        if (match.document_token != expected[token].document_token) {
          EXPECT_LT(match.document_token, documents_.length(static_cast<int64_t>(result.hits[idx].ordinal)));
        }
      }
    }
  }

  std::vector<uint64_t> Shuffled(uint64_t number, size_t count) const {
    std::vector<uint64_t> ordinals(kNumDocuments);
    std::iota(ordinals.begin(), ordinals.end(), uint64_t{0});
    std::mt19937_64 random(seed_ + number);
    std::shuffle(ordinals.begin(), ordinals.end(), random);
    ordinals.resize(count);
    return ordinals;
  }

  // Returns queries of every kind.
  std::vector<JobQuery> AllKinds() const {
    const CandidatesPtr list = Ordinals(Shuffled(50, 170), 2);
    const CandidatesPtr inline_documents = Inline(documents_);
    std::vector<JobQuery> queries;
    queries.push_back(MakeJobQuery(Query(1, 5), WholeCollection(), 20, true));
    queries.push_back(MakeJobQuery(Query(2, 33, true), list, 15, true));
    queries.push_back(MakeJobQuery(Query(3, 1), list, 400));
    queries.push_back(MakeJobQuery(Query(4, 17), inline_documents, 30, true));
    queries.push_back(MakeJobQuery(Query(5, 32), WholeCollection(), 1));
    queries.push_back(MakeJobQuery(Query(6, 9, true), inline_documents, 1000, true));
    queries.push_back(MakeJobQuery(Query(7, 4), Ordinals({299, 0, 150}), 3, true));
    queries.push_back(MakeJobQuery(Query(8, 4), Ordinals({}), 3, true));
    return queries;
  }

  // Scores one job with queries of all kinds on the lane `tight`, whose calls have narrow limits. Each query must get
  // the same bits as alone on a lane without them.
  void ExpectSameBitsFrom(Lane& tight) {
    const std::vector<JobQuery> queries = AllKinds();
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(MakeJob(collection_, queries));
    const auto results = Execute(tight, jobs);
    ASSERT_TRUE(results[0].ok()) << results[0].status();
    for (size_t idx = 0; idx < queries.size(); ++idx) {
      ExpectSameResult(ExecuteOne(lane(), collection_, queries[idx]), results[0]->queries[idx]);
    }
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  const test::RandomDocuments values_;
  const test::RandomDocuments documents_;  // in the collection's storage type
  std::vector<std::unique_ptr<test::TemporaryFolder>> folders_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const store::Collection> collection_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(LaneNumbersTest, AWholeCollectionMatchesFp64) {
  std::vector<uint64_t> all(kNumDocuments);
  std::iota(all.begin(), all.end(), uint64_t{0});
  for (int32_t top_k : {1, 10, 299, 300, 1000}) {
    const test::RandomQuery query = Query(1, 31);
    const JobQueryResult result =
        ExecuteOne(lane(), collection_, MakeJobQuery(query, WholeCollection(), top_k, top_k == 10));
    ExpectMatchesReference(query, all, 1, top_k, result);
  }
}

TEST_P(LaneNumbersTest, AListMatchesFp64WithPositionsAsTheClientSentThem) {
  for (size_t count : {1, 2, 100, 300}) {
    const test::RandomQuery query = Query(2, 12);
    const std::vector<uint64_t> ordinals = Shuffled(count, count);
    const JobQueryResult result = ExecuteOne(lane(), collection_, MakeJobQuery(query, Ordinals(ordinals, 5), 50, true));
    EXPECT_FALSE(result.matches.empty());
    ExpectMatchesReference(query, ordinals, 5, 50, result);
  }
}

TEST_P(LaneNumbersTest, WeightsMatchFp64) {
  const test::RandomQuery query = Query(3, 20, true);
  const std::vector<uint64_t> ordinals = Shuffled(3, 200);
  ExpectMatchesReference(query, ordinals, 1, 30,
                         ExecuteOne(lane(), collection_, MakeJobQuery(query, Ordinals(ordinals), 30, true)));
}

TEST_P(LaneNumbersTest, InlineDocumentsMatchFp64) {
  std::vector<uint64_t> all(kNumDocuments);
  std::iota(all.begin(), all.end(), uint64_t{0});
  const test::RandomQuery query = Query(4, 20, true);
  ExpectMatchesReference(query, all, 1, 30,
                         ExecuteOne(lane(), collection_, MakeJobQuery(query, Inline(documents_), 30, true)));
}

TEST_P(LaneNumbersTest, TheSameDocumentsScoreTheSameBitsInEveryShardSplit) {
  const auto one_shard = Build(values_, collection::kDefaultMaxShardBytes, 1);
  const auto many_shards = Build(values_, collection::kMinMaxShardBytes, collection_->generation().parts().size() + 1);
  ASSERT_EQ(one_shard->generation().parts().size(), 1u);
  for (const JobQuery& query : AllKinds()) {
    const JobQueryResult expected = ExecuteOne(lane(), one_shard, query);
    ExpectSameResult(expected, ExecuteOne(lane(), collection_, query));
    ExpectSameResult(expected, ExecuteOne(lane(), many_shards, query));
  }
}

TEST_P(LaneNumbersTest, TheSameBitsComeOutOfEveryBatch) {
  const std::vector<JobQuery> queries = AllKinds();
  std::vector<JobQueryResult> alone;
  for (const JobQuery& query : queries) alone.push_back(ExecuteOne(lane(), collection_, query));

  // A batch of all queries in one job, then each in a job of its own, then each twice more in reverse order.
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(collection_, queries));
  for (const JobQuery& query : queries) jobs.push_back(MakeJob(collection_, {query}));
  for (int round = 0; round < 2; ++round) {
    for (auto query = queries.rbegin(); query != queries.rend(); ++query)
      jobs.push_back(MakeJob(collection_, {*query}));
  }
  const auto results = Execute(lane(), jobs);
  ASSERT_EQ(results.size(), jobs.size());
  for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status();
  const size_t count = queries.size();
  ASSERT_EQ(results[0]->queries.size(), count);
  for (size_t idx = 0; idx < count; ++idx) {
    ExpectSameResult(alone[idx], results[0]->queries[idx]);
    ExpectSameResult(alone[idx], results[1 + idx]->queries[0]);
    ExpectSameResult(alone[idx], results[1 + 2 * count - 1 - idx]->queries[0]);
    ExpectSameResult(alone[idx], results[1 + 3 * count - 1 - idx]->queries[0]);
  }
}

TEST_P(LaneNumbersTest, TheSameBitsComeOutOfTheSmallestCalls) {
  for (int64_t max_candidates : {1, 7, 64}) {
    const int64_t row_bytes = kDim * static_cast<int64_t>(SizeOf(GetParam()));
    const auto tight = MakeEngine(backend_.get(), {.max_queries = 2,
                                                   .max_query_tokens = 34,
                                                   .max_candidates = max_candidates,
                                                   .max_dim = kDim,
                                                   .max_staged_bytes = 40 * row_bytes,
                                                   .max_staged_documents = 9});
    ExpectSameBitsFrom(tight->lane(0));
  }
}

TEST_P(LaneNumbersTest, TheSameBitsComeOutOfCallsOfLittleWork) {
  for (uint64_t max_call_work : {1, 700, 20'000}) {
    const auto tight = MakeEngine(backend_.get(), {}, max_call_work);
    ExpectSameBitsFrom(tight->lane(0));
  }
}

// Equal documents are in different shards. The earlier position must come first, whichever shard it is in.
TEST_P(LaneNumbersTest, TiesAcrossShardsBreakByPosition) {
  test::RandomDocuments equal = test::MakeDocuments(seed_, ValueType(), kDim, std::vector<int64_t>(kNumDocuments, 6));
  for (int64_t token = 6; token < equal.tokens.num_tokens(); ++token)
    equal.tokens.CopyRow(equal.tokens, token % 6, token);
  const auto collection = Build(equal, 10'000, 3);
  const test::RandomQuery query = Query(1, 8);
  const JobQueryResult whole = ExecuteOne(lane(), collection, MakeJobQuery(query, WholeCollection(), 250));
  ASSERT_EQ(whole.hits.size(), 250u);
  for (size_t idx = 0; idx < 250; ++idx) {
    EXPECT_EQ(whole.hits[idx].position, idx);
    EXPECT_EQ(whole.hits[idx].ordinal, idx);
    EXPECT_EQ(whole.hits[idx].score, whole.hits[0].score);
  }
  const std::vector<uint64_t> ordinals = Shuffled(9, 200);
  const JobQueryResult listed = ExecuteOne(lane(), collection, MakeJobQuery(query, Ordinals(ordinals, 3), 120));
  ASSERT_EQ(listed.hits.size(), 120u);
  for (size_t idx = 0; idx < 120; ++idx) {
    EXPECT_EQ(listed.hits[idx].position, 3 * idx);
    EXPECT_EQ(listed.hits[idx].ordinal, ordinals[idx]);
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, LaneNumbersTest,
                         testing::Values(ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8),
                         [](const auto& storage) { return std::string(Name(storage.param)); });

}  // namespace
}  // namespace maxsim::engine
