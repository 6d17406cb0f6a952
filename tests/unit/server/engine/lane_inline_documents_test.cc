// Tests how a lane (the thread that scores a batch) divides the documents that requests carry among calls of its
// executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine_fixture.h"
#include "tests/unit/server/engine/lane_calls_fixture.h"

namespace maxsim::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A backend may pad the rows that it stages to a multiple of 8 columns. So the lane must divide documents by their
// padded bytes, not by those that were sent.
TEST_F(LaneCallsTest, InlineDocumentsCountWithPaddedColumns) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(22, 3, ScalarType::kF16, 12));
  const auto collection = test::LoadCorpus(folder.path(), &backend_);
  ExecutorOptions limits;
  limits.max_staged_bytes = 6 * 16 * 2;  // room for six rows of 12 columns, padded to 16
  const auto engine = MakeEngine(&backend_, limits);
  std::vector<std::unique_ptr<Job>> jobs;
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{7}, {6}, {3, 3, 4, 2, 1}}) {
    const auto documents = test::MakeDocuments(23, ScalarType::kF16, 12, lengths);
    std::vector<JobQuery> queries;
    queries.push_back(MakeJobQuery(test::MakeQuery(1, ScalarType::kF16, 12, 2), Inline(documents), 10));
    jobs.push_back(MakeJob(collection, std::move(queries)));
  }
  const auto results = Execute(engine->lane(0), jobs);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(results[0].status().message(), HasSubstr("inline document 0 is 224 bytes"));
  EXPECT_TRUE(results[1].ok()) << results[1].status();
  ASSERT_TRUE(results[2].ok()) << results[2].status();
  EXPECT_EQ(results[2]->queries[0].hits.size(), 5u);
  std::vector<int64_t> staged;
  for (const auto& call : backend_.calls()) staged.push_back(call.num_documents);
  EXPECT_THAT(staged, ElementsAre(1, 2, 2, 1));
}

// The limit counts i8 rows padded to 16 columns. Rows of 13 columns may begin at an odd address, which no backend
// accepts.
TEST_F(LaneCallsTest, InlineDocumentsOfI8CarryTheirScalesThroughStagings) {
  constexpr int32_t kOdd = 13;
  const test::TemporaryFolder folder;
  const test::RandomDocuments values = test::SmallDocuments(22, 3, ScalarType::kF32, kOdd);
  test::BuildCorpus(folder.path(), values, {.storage = ScalarType::kI8});
  const auto backend = MakeCpuBackend();
  const auto collection = test::LoadCorpus(folder.path(), backend.get());
  const auto whole = MakeEngine(backend.get());
  const auto six_rows = MakeEngine(backend.get(), {.max_staged_bytes = 6 * 16});  // room for six rows
  test::RandomDocuments documents =
      test::MakeDocuments(23, ScalarType::kF32, kOdd, std::vector<int64_t>{3, 3, 4, 2, 1, 5, 6});
  documents.rotation_seed = values.rotation_seed;
  documents = test::Stored(documents, ScalarType::kI8);
  const auto query = test::MakeQuery(1, ScalarType::kI8, kOdd, 4);
  const JobQueryResult expected =
      ExecuteOne(whole->lane(0), collection, MakeJobQuery(query, Inline(documents), 10, true));
  ASSERT_EQ(expected.hits.size(), 7u);
  const std::vector<ReferenceScore> scores = ReferenceScores(documents.view(), query.view(1));
  for (const Hit& hit : expected.hits) {
    EXPECT_NEAR(hit.score, scores[hit.position].score, 1e-5 * scores[hit.position].magnitude);
  }
  ExpectSameResult(expected,
                   ExecuteOne(six_rows->lane(0), collection, MakeJobQuery(query, Inline(documents), 10, true)));

  test::RandomDocuments without = documents;
  without.scales.clear();
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<JobQuery> queries = {MakeJobQuery(query, Inline(without), 10)};
  jobs.push_back(MakeJob(collection, queries));
  without.scales.assign(6, 1.0F);
  queries = {MakeJobQuery(query, Inline(without), 10)};
  jobs.push_back(MakeJob(collection, queries));
  const auto longer = test::MakeDocuments(23, ScalarType::kI8, kOdd, std::vector<int64_t>{7});
  queries = {MakeJobQuery(query, Inline(longer), 10)};
  jobs.push_back(MakeJob(collection, queries));
  const auto results = Execute(six_rows->lane(0), jobs);
  EXPECT_THAT(results[0].status().message(), HasSubstr("documents.scales is null"));
  EXPECT_THAT(results[1].status().message(), HasSubstr("inline documents have 6 scales for 7"));
  EXPECT_THAT(results[2].status().message(), HasSubstr("inline document 0 is 112 bytes"));
}

}  // namespace
}  // namespace maxsim::engine
