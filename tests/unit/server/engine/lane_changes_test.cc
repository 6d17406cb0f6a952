// Tests the engine's lanes (a lane is the thread and the executors that score one batch) on live collections: answers
// must have the same bits as those of a collection built from the live documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "collection/build/sources/memory_sources.h"
#include "tests/support/collection/live_documents.h"
#include "tests/support/engine_fixture.h"

namespace maxsim::engine {
namespace {

constexpr int32_t kWrittenDim = 16;

class LaneChangesTest : public testing::TestWithParam<ScalarType> {
 protected:
  LaneChangesTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        values_(test::SmallDocuments(seed_, 400, QueryType(GetParam()), kWrittenDim)),
        documents_(test::StoredAs(values_, GetParam())),
        written_(test::StoredAs(test::SmallDocuments(seed_ + 1, 600, QueryType(GetParam()), kWrittenDim), GetParam())),
        backend_(MakeCpuBackend()) {
    options_.storage = GetParam();
    test::BuildCorpus(folder_.path(), values_, options_);
    base_ = test::LoadCorpus(folder_.path(), backend_.get());
    live_ = std::make_unique<test::LiveCorpus>(backend_.get(), base_, documents_, options_, 100);
    engine_ = MakeEngine(backend_.get());
  }

  void Change(std::mt19937_64& random, int count) {
    for (int change = 0; change < count; ++change) {
      const std::string id = "doc-" + std::to_string(random() % 500);
      if (random() % 4 == 0) {
        live_->Delete(id);
      } else {
        // A third of the upserts choose among only four documents, so that many scores are equal.
        live_->Upsert(id, written_, static_cast<int64_t>(random() % 3 == 0 ? random() % 4 : random() % 600));
      }
    }
  }

  test::RandomQuery Query(uint64_t number, int32_t num_tokens) const {
    return test::MakeQuery(seed_ + number, GetParam(), kWrittenDim, num_tokens);
  }

  // Scores the expected documents as inline documents. That gives the expected bits of their scores and, by the
  // documents' order, the order of ties.
  JobQueryResult Expected(const test::ExpectedDocuments& expected, const std::vector<std::string>& ids,
                          const JobQuery& query) {
    auto set = std::make_shared<CandidateSet>();
    set->kind = CandidateSet::Kind::kInline;
    set->inline_offsets = {0};
    for (const std::string& id : ids) {
      const test::ExpectedDocument& document = expected.Get(id);
      const auto* const rows = reinterpret_cast<const std::byte*>(document.rows.data());
      set->inline_tokens.insert(set->inline_tokens.end(), rows, rows + document.rows.size());
      set->inline_offsets.push_back(set->inline_offsets.back() + document.num_tokens);
      if (GetParam() == ScalarType::kI8) set->inline_scales.push_back(document.scale);
    }
    JobQuery inline_query = query;
    inline_query.candidates = std::move(set);
    return ExecuteOne(engine_->lane(0), base_, std::move(inline_query));
  }

  // Compares a result with the expected result for the documents `ids`: ids, bits of scores, and alignments.
  void ExpectSame(const store::Collection& collection, const test::ExpectedDocuments& expected,
                  const std::vector<std::string>& ids, const JobQuery& query, const JobQueryResult& result) {
    const JobQueryResult best = Expected(expected, ids, query);
    ASSERT_EQ(result.hits.size(), best.hits.size());
    for (size_t idx = 0; idx < result.hits.size(); ++idx) {
      EXPECT_EQ(collection.string_id(result.hits[idx].ordinal), ids[best.hits[idx].position]) << idx;
      EXPECT_EQ(std::bit_cast<uint32_t>(result.hits[idx].score), std::bit_cast<uint32_t>(best.hits[idx].score)) << idx;
    }
    ASSERT_EQ(result.matches.size(), best.matches.size());
    for (size_t idx = 0; idx < result.matches.size(); ++idx) {
      EXPECT_EQ(result.matches[idx].document_token, best.matches[idx].document_token);
    }
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  const test::TemporaryFolder folder_;
  test::CorpusOptions options_ = {.max_shard_bytes = 20'000};
  const test::RandomDocuments values_;
  const test::RandomDocuments documents_;
  const test::RandomDocuments written_;
  const std::unique_ptr<Backend> backend_;
  std::shared_ptr<const store::Collection> base_;
  std::unique_ptr<test::LiveCorpus> live_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(LaneChangesTest, ScansAndListsGiveTheBitsOfTheDocumentsThatAreLeft) {
  std::mt19937_64 random(seed_);
  // Changes add up over the rounds. In the first round, no document has a tombstone (mark of a deleted document). In
  // later rounds, a scan with top_k near kMaxTopK cannot ask for an extra result per tombstone. So it must be given a
  // list of the remaining documents.
  for (const int changes : {0, 5, 100, 1500}) {
    SCOPED_TRACE(changes);
    Change(random, changes);
    const auto snapshot = live_->Snapshot();
    const std::vector<std::string> ids = live_->expected().ids();
    for (const int32_t top_k : {1, 10, 350, kMaxTopK - 1, kMaxTopK}) {
      const JobQuery query = MakeJobQuery(Query(static_cast<uint64_t>(top_k), 7), WholeCollection(), top_k, true);
      ExpectSame(*snapshot, live_->expected(), ids, query, ExecuteOne(engine_->lane(0), snapshot, query));
    }
    std::vector<std::string> some;
    std::vector<uint64_t> ordinals;
    for (const std::string& id : ids) {
      if (random() % 3 != 0) continue;
      some.push_back(id);
      ordinals.push_back(*snapshot->Find(id));
    }
    const JobQuery query = MakeJobQuery(Query(99, 33), Ordinals(ordinals), 40, true);
    ExpectSame(*snapshot, live_->expected(), some, query, ExecuteOne(engine_->lane(0), snapshot, query));
  }
}

TEST_P(LaneChangesTest, OnePartWithManyTombstonesIsInRankOrder) {
  const test::TemporaryFolder folder;
  test::CorpusOptions options = options_;
  options.max_shard_bytes = collection::kDefaultMaxShardBytes;
  test::BuildCorpus(folder.path(), values_, options);
  test::LiveCorpus live(backend_.get(), test::LoadCorpus(folder.path(), backend_.get()), documents_, options, 100);
  for (int n = 0; n < 200; ++n) live.Delete("doc-" + std::to_string(2 * n));
  const auto snapshot = live.Snapshot();
  ASSERT_EQ(snapshot->num_parts(), 1u);
  for (const int32_t top_k : {1, 3, 10, 199, 400}) {
    const JobQuery query = MakeJobQuery(Query(7, 5), WholeCollection(), top_k);
    ExpectSame(*snapshot, live.expected(), live.expected().ids(), query, ExecuteOne(engine_->lane(0), snapshot, query));
  }
}

TEST_P(LaneChangesTest, SmallCallsGiveTheSameBits) {
  std::mt19937_64 random(seed_);
  Change(random, 1200);
  const auto snapshot = live_->Snapshot();
  const auto small = MakeEngine(backend_.get(), {.max_candidates = 37}, 500);
  for (const int32_t top_k : {3, 200}) {
    const JobQuery query = MakeJobQuery(Query(1, 5), WholeCollection(), top_k);
    ExpectSameResult(ExecuteOne(engine_->lane(0), snapshot, query), ExecuteOne(small->lane(0), snapshot, query));
  }
}

TEST_P(LaneChangesTest, JobsOfSeveralSnapshotsAreScoredTogether) {
  std::mt19937_64 random(seed_);
  Change(random, 50);
  const auto earlier = live_->Snapshot();
  const test::ExpectedDocuments earlier_documents = live_->expected();
  std::vector<std::string> ids = earlier_documents.ids();
  std::vector<uint64_t> ordinals;
  for (const std::string& id : ids) ordinals.push_back(*earlier->Find(id));
  Change(random, 200);
  const auto later = live_->Snapshot();

  const JobQuery list = MakeJobQuery(Query(1, 5), Ordinals(ordinals), 30);
  const JobQuery scan = MakeJobQuery(Query(2, 6), WholeCollection(), 30);
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(earlier, {list}));
  jobs.push_back(MakeJob(later, {scan}));
  jobs.push_back(MakeJob(earlier, {scan}));
  EXPECT_TRUE(MayShareBatch(*jobs[0], *jobs[1]));
  const auto results = Execute(engine_->lane(0), jobs);
  for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(results[0]->collection, nullptr) << "a list is of its own snapshot";
  ExpectSame(*earlier, earlier_documents, ids, list, results[0]->queries[0]);
  EXPECT_EQ(results[1]->collection, nullptr);
  ExpectSame(*later, live_->expected(), live_->expected().ids(), scan, results[1]->queries[0]);
  EXPECT_EQ(results[2]->collection, later) << "a scan is of the latest snapshot";
  ExpectSameResult(results[1]->queries[0], results[2]->queries[0]);

  jobs[2]->pinned = true;
  EXPECT_FALSE(MayShareBatch(*jobs[1], *jobs[2]));
  EXPECT_TRUE(MayShareBatch(*jobs[0], *jobs[2])) << "of one snapshot";
  const auto refused = Execute(engine_->lane(0), jobs);
  EXPECT_TRUE(refused[0].ok() && refused[1].ok());
  EXPECT_EQ(refused[2].status().code(), absl::StatusCode::kInternal);
}

TEST_P(LaneChangesTest, OtherGenerationsAreOtherBatches) {
  const auto other = test::LoadCorpus(folder_.path(), backend_.get());
  const auto job = MakeJob(base_, {MakeJobQuery(Query(1, 5), WholeCollection(), 1)});
  const auto other_job = MakeJob(other, {MakeJobQuery(Query(1, 5), WholeCollection(), 1)});
  EXPECT_FALSE(MayShareBatch(*job, *other_job));
}

INSTANTIATE_TEST_SUITE_P(Storage, LaneChangesTest,
                         testing::Values(ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8),
                         [](const auto& param_info) { return std::string(Name(param_info.param)); });

}  // namespace
}  // namespace maxsim::engine
