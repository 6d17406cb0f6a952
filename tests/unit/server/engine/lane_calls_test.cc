// Tests the calls that a lane (the thread that scores a batch) makes to its executor: the sizes of the calls, which
// queries share a call, failures of calls, and statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "kernels/candidate_mask.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/unit/server/engine/lane_calls_fixture.h"

namespace maxsim::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(LaneCallsTest, WholeCollectionQueriesOfAllJobsShareOneCallAPart) {
  const auto engine = MakeEngine(&backend_);
  const auto jobs =
      Jobs(OneQuery(3, WholeCollection()), OneQuery(4, WholeCollection()), OneQuery(5, WholeCollection()));
  BatchStats stats;
  const auto results = Execute(engine->lane(0), jobs, &stats);
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
  const auto calls = backend_.calls();
  ASSERT_EQ(calls.size(), num_parts_);
  for (const auto& call : calls) {
    EXPECT_THAT(call.query_tokens, ElementsAre(3, 4, 5));
    EXPECT_THAT(call.ordinals, ElementsAre(nullptr, nullptr, nullptr));
  }
  EXPECT_EQ(stats.num_queries, 3);
  EXPECT_EQ(stats.token_pairs, 12 * AllTokens());
  EXPECT_EQ(stats.document_tokens, AllTokens());
  EXPECT_DOUBLE_EQ(stats.timings.copy_seconds, 0.25 * static_cast<double>(num_parts_));
  EXPECT_DOUBLE_EQ(stats.timings.kernel_seconds, 0.5 * static_cast<double>(num_parts_));
  EXPECT_EQ(results[0]->copy_time, absl::Seconds(stats.timings.copy_seconds));
  EXPECT_EQ(results[2]->kernel_time, absl::Seconds(stats.timings.kernel_seconds));
}

TEST_F(LaneCallsTest, QueriesOfOneListShareItsOrdinalsAndPartsWithoutCandidatesAreLeftOut) {
  const auto engine = MakeEngine(&backend_);
  const CandidatesPtr first_part = Ordinals({2, 0});
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(collection_, {Query(3, first_part), Query(4, first_part)}));
  BatchStats stats;
  const auto results = Execute(engine->lane(0), jobs, &stats);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  const auto calls = backend_.calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_THAT(calls[0].num_candidates, ElementsAre(2, 2));
  EXPECT_NE(calls[0].ordinals[0], nullptr);
  EXPECT_EQ(calls[0].ordinals[0], calls[0].ordinals[1]);
  const auto tokens = static_cast<uint64_t>(documents_.length(0) + documents_.length(2));
  EXPECT_EQ(stats.token_pairs, 7 * tokens);
  EXPECT_EQ(stats.document_tokens, tokens);
  // The fake backend ranks the lowest ordinal first.
  ASSERT_EQ(results[0]->queries[0].hits.size(), 2u);
  EXPECT_EQ(results[0]->queries[0].hits[0].ordinal, 0u);
  EXPECT_EQ(results[0]->queries[0].hits[0].position, 1u);
}

TEST_F(LaneCallsTest, NoCallPassesTheLimits) {
  ExecutorOptions limits;
  limits.max_queries = 3;
  limits.max_query_tokens = 10;
  limits.max_candidates = 90;
  const auto engine = MakeEngine(&backend_, limits);
  std::vector<uint64_t> all(200);
  std::iota(all.begin(), all.end(), uint64_t{0});
  std::vector<JobQuery> queries;
  for (int32_t tokens : {1, 4, 10, 5, 5, 2, 2, 2, 2}) {
    queries.push_back(Query(tokens, WholeCollection(), 200));
    queries.push_back(Query(tokens, Ordinals(all), 200));
    queries.push_back(Query(tokens, Inline(documents_), 200));
  }
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(collection_, std::move(queries)));
  const uint64_t work = jobs[0]->work;
  BatchStats stats;
  const auto results = Execute(engine->lane(0), jobs, &stats);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  for (const auto& call : backend_.calls()) {
    EXPECT_LE(call.query_tokens.size(), 3u);
    EXPECT_LE(std::accumulate(call.query_tokens.begin(), call.query_tokens.end(), int64_t{0}), 10);
    EXPECT_LE(std::accumulate(call.num_candidates.begin(), call.num_candidates.end(), int64_t{0}), 90);
  }
  EXPECT_EQ(stats.token_pairs, work);
  for (const auto& result : results[0]->queries) EXPECT_EQ(result.hits.size(), 200u);
}

// Each call copies its documents to the GPU. So each call must have all queries: a query in a call of its own would
// need its documents copied again.
TEST_F(LaneCallsTest, QueriesShareEveryDocumentThatIsCopiedToTheGpu) {
  test::FakeBackend gpu("cuda");
  for (const store::Residency residency : {store::Residency::kHost, store::Residency::kDisk}) {
    const auto collection = test::LoadCorpus(folder_.path(), &gpu, residency);
    ASSERT_TRUE(collection->is_streamed());
    for (const int64_t max_candidates : {3, 90, 200, 500}) {
      const auto engine = MakeEngine(&gpu, {.max_candidates = max_candidates});
      std::vector<std::unique_ptr<Job>> jobs;
      jobs.push_back(MakeJob(collection, {Query(3, WholeCollection(), 200), Query(4, WholeCollection(), 200),
                                          Query(5, WholeCollection(), 200)}));
      const size_t before = gpu.calls().size();
      BatchStats stats;
      const auto results = Execute(engine->lane(0), jobs, &stats);
      ASSERT_TRUE(results[0].ok()) << results[0].status();
      EXPECT_EQ(stats.document_tokens, AllTokens());
      for (const auto& result : results[0]->queries) EXPECT_EQ(result.hits.size(), 200u);
      const auto calls = gpu.calls();
      for (size_t idx = before; idx < calls.size(); ++idx) {
        EXPECT_THAT(calls[idx].query_tokens, ElementsAre(3, 4, 5));
        EXPECT_LE(3 * calls[idx].num_candidates[0], max_candidates);
      }
    }
  }
}

TEST_F(LaneCallsTest, NoCallPassesTheWorkUnlessItIsOneDocument) {
  const test::TemporaryFolder folder;
  const auto documents = test::MakeDocuments(24, ScalarType::kF16, 16, std::vector<int64_t>(100, 5));
  test::BuildCorpus(folder.path(), documents);
  const auto collection = test::LoadCorpus(folder.path(), &backend_);
  std::vector<uint64_t> all(100);
  std::iota(all.begin(), all.end(), uint64_t{0});
  const auto expect_within_200 = [&](Lane& lane) {
    for (const CandidatesPtr& candidates : {WholeCollection(), Ordinals(all), Inline(documents)}) {
      for (const std::vector<int32_t>& tokens : {std::vector<int32_t>{3}, {1, 2, 7, 10}, {50}}) {
        std::vector<JobQuery> queries;
        for (const int32_t num_tokens : tokens) queries.push_back(Query(num_tokens, candidates, 100));
        std::vector<std::unique_ptr<Job>> jobs;
        jobs.push_back(MakeJob(collection, std::move(queries)));
        const size_t before = backend_.calls().size();
        BatchStats stats;
        const auto results = Execute(lane, jobs, &stats);
        ASSERT_TRUE(results[0].ok()) << results[0].status();
        for (const auto& result : results[0]->queries) EXPECT_EQ(result.hits.size(), 100u);
        EXPECT_EQ(stats.token_pairs, jobs[0]->work);
        const auto calls = backend_.calls();
        // Calls are at least half full, unless each has one document only.
        EXPECT_LE(calls.size() - before, tokens[0] == 50 ? 100u : jobs[0]->work / 100 + 1);
        for (size_t idx = before; idx < calls.size(); ++idx) {
          int64_t work = 0;
          for (size_t query = 0; query < calls[idx].query_tokens.size(); ++query) {
            work += 5 * calls[idx].num_candidates[query] * calls[idx].query_tokens[query];
          }
          EXPECT_LE(work, tokens[0] == 50 ? 250 : 200);
        }
      }
    }
  };
  expect_within_200(MakeEngine(&backend_, {}, 200)->lane(0));
  backend_.SetMaxCallWork(200);
  expect_within_200(MakeEngine(&backend_)->lane(0));
}

TEST_F(LaneCallsTest, ACancellationEndsAScanOfOnePartBetweenItsCalls) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), documents_);
  const auto collection = test::LoadCorpus(folder.path(), &backend_);
  ASSERT_EQ(collection->generation().parts().size(), 1u);
  // A call may have AllTokens() token pairs. That is a third of the job's work, because its query has three tokens.
  const auto engine = MakeEngine(&backend_, {}, AllTokens());
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(collection, {Query(3, WholeCollection())}));
  jobs[0]->cancelled = std::make_shared<std::atomic<bool>>(false);
  const auto cancelled = jobs[0]->cancelled;
  backend_.OnTopK([&](absl::Span<const maxsim::Query>) {
    *cancelled = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(Execute(engine->lane(0), jobs)[0].status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(backend_.calls().size(), 1u);
}

TEST_F(LaneCallsTest, AQueryBeyondALimitFailsItsJobAndNoOther) {
  ExecutorOptions limits;
  limits.max_query_tokens = 10;
  limits.max_staged_bytes = 100;
  const auto engine = MakeEngine(&backend_, limits);
  const auto jobs =
      Jobs(OneQuery(11, WholeCollection()), OneQuery(10, WholeCollection()), OneQuery(1, Inline(documents_)));
  BatchStats stats;
  const auto results = Execute(engine->lane(0), jobs, &stats);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(results[0].status().message(), HasSubstr("queries[0]: query has 11 tokens"));
  EXPECT_THAT(results[0].status().message(), HasSubstr("max_query_tokens is 10"));
  EXPECT_TRUE(results[1].ok());
  EXPECT_EQ(results[2].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(results[2].status().message(), HasSubstr("max_staged_bytes is 100"));
  EXPECT_EQ(stats.num_queries, 1);
  EXPECT_EQ(stats.token_pairs, 10 * AllTokens());
}

TEST_F(LaneCallsTest, ADimensionBeyondTheLimitIsNamed) {
  ExecutorOptions limits;
  limits.max_dim = 15;
  const auto engine = MakeEngine(&backend_, limits);
  const auto jobs = Jobs(OneQuery(1, WholeCollection()), OneQuery(1, WholeCollection()));
  const auto results = Execute(engine->lane(0), jobs);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(results[0].status().message(), HasSubstr("dimension 16; the engine's max_dim is 15"));
}

TEST_F(LaneCallsTest, MalformedJobsAreRefusedOneByOne) {
  const auto engine = MakeEngine(&backend_);
  std::vector<std::unique_ptr<Job>> jobs;
  const auto add = [&](auto&& change) {
    jobs.push_back(OneQuery(4, Inline(documents_)));
    change(jobs.back()->queries[0]);
  };
  add([](JobQuery& query) { query.tokens.pop_back(); });
  add([](JobQuery& query) { query.weights = {1, 2, 3}; });
  add([](JobQuery& query) { query.num_tokens = 0; });
  add([](JobQuery& query) { query.num_tokens = -1; });
  add([](JobQuery& query) { query.top_k = 0; });
  add([](JobQuery& query) { query.top_k = kMaxTopK + 1; });
  add([](JobQuery& query) { query.candidates = nullptr; });
  const auto with_inline = [&](auto&& change) {
    add([&](JobQuery& query) {
      auto set = std::make_shared<CandidateSet>(*query.candidates);
      change(*set);
      query.candidates = set;
    });
  };
  with_inline([](CandidateSet& set) { set.inline_tokens.pop_back(); });
  with_inline([](CandidateSet& set) { set.inline_offsets.clear(); });
  with_inline([](CandidateSet& set) { set.inline_offsets[1] = set.inline_offsets[2]; });
  with_inline([](CandidateSet& set) { set.inline_offsets[0] = 1; });
  add([](JobQuery& query) { query.candidates = Ordinals({200}); });
  const size_t num_bad = jobs.size();
  jobs.push_back(OneQuery(4, WholeCollection()));
  const auto results = Execute(engine->lane(0), jobs);
  for (size_t idx = 0; idx < num_bad; ++idx) {
    EXPECT_EQ(results[idx].status().code(), absl::StatusCode::kInvalidArgument) << idx << ": " << results[idx].status();
  }
  EXPECT_TRUE(results.back().ok()) << results.back().status();
}

TEST_F(LaneCallsTest, AJobOnAnotherGenerationIsRefused) {
  const auto engine = MakeEngine(&backend_);
  const auto other = test::LoadCorpus(folder_.path(), &backend_);
  auto jobs = Jobs(OneQuery(1, WholeCollection()), OneQuery(1, WholeCollection()));
  jobs[1]->collection = other;
  const auto results = Execute(engine->lane(0), jobs);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInternal);
}

TEST_F(LaneCallsTest, WhenACallFailsOnlyTheJobToBlameFails) {
  const auto engine = MakeEngine(&backend_);
  backend_.OnTopK([](absl::Span<const maxsim::Query> queries) {
    for (const maxsim::Query& query : queries) {
      if (query.num_tokens == 4) return absl::InternalError("4 is unlucky");
    }
    return absl::OkStatus();
  });
  const auto jobs =
      Jobs(OneQuery(3, WholeCollection()), OneQuery(4, WholeCollection()), OneQuery(5, WholeCollection()));
  BatchStats stats;
  const auto results = Execute(engine->lane(0), jobs, &stats);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(results[2].ok());
  EXPECT_EQ(results[2]->queries[0].hits.size(), 10u);
  EXPECT_EQ(stats.num_queries, 2);
  EXPECT_EQ(stats.token_pairs, 8 * AllTokens());
  // For the first part (loaded shard), one call with all queries fails, and then each of the three queries gets a call
  // of its own. Each other part takes one call.
  EXPECT_EQ(backend_.calls().size(), 4 + (num_parts_ - 1));
}

TEST_F(LaneCallsTest, ALostDeviceFailsEveryJobOfTheBatch) {
  const auto engine = MakeEngine(&backend_);
  std::atomic<int> calls{0};
  backend_.OnTopK([&calls](absl::Span<const maxsim::Query>) {
    return ++calls == 1 ? absl::OkStatus() : absl::UnavailableError("fell off the bus");
  });
  // The first job has all its results after the first part (loaded shard). But the device is lost after that, so the
  // job must fail all the same.
  const auto jobs = Jobs(OneQuery(3, Ordinals({0})), OneQuery(4, WholeCollection()));
  const auto results = Execute(engine->lane(0), jobs);
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(result.status().message(), HasSubstr("fell off the bus"));
  }
  EXPECT_EQ(calls, 2);
}

TEST_F(LaneCallsTest, BetweenCallsCancelledAndExpiredJobsAreDropped) {
  const auto engine = MakeEngine(&backend_);
  auto jobs = Jobs(OneQuery(3, WholeCollection()), OneQuery(4, WholeCollection()), OneQuery(5, WholeCollection()));
  jobs[0]->cancelled = std::make_shared<std::atomic<bool>>(false);
  jobs[1]->cancelled = jobs[0]->cancelled;  // gRPC does so when a call expires
  const auto cancelled = jobs[0]->cancelled;
  backend_.OnTopK([&](absl::Span<const maxsim::Query>) {
    *cancelled = true;
    jobs[1]->deadline = absl::InfinitePast();
    return absl::OkStatus();
  });
  const auto results = Execute(engine->lane(0), jobs);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(results[2].ok());
  const auto calls = backend_.calls();
  ASSERT_EQ(calls.size(), num_parts_);
  EXPECT_THAT(calls[0].query_tokens, ElementsAre(3, 4, 5));
  EXPECT_THAT(calls[1].query_tokens, ElementsAre(5));
}

TEST_F(LaneCallsTest, StopEndsABatchBetweenCalls) {
  const auto engine = MakeEngine(&backend_);
  const auto jobs = Jobs(OneQuery(3, WholeCollection()), OneQuery(4, WholeCollection()));
  std::atomic<bool> stop{false};
  backend_.OnTopK([&](absl::Span<const maxsim::Query>) {
    stop = true;
    return absl::OkStatus();
  });
  std::vector<Job*> pointers = {jobs[0].get(), jobs[1].get()};
  const auto results = engine->lane(0).Execute(pointers, nullptr, &stop);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(backend_.calls().size(), 1u);
}

TEST_F(LaneCallsTest, AFilterGivesItsListAndItsBitmap) {
  const auto engine = MakeEngine(&backend_);
  const auto matching = store::MatchingDocuments::Find(
      *collection_, collection::Filter::InSlots({.first = 0, .end = collection::kNumSlots / 2}), nullptr);
  ASSERT_TRUE(matching.ok()) << matching.status();
  auto set = std::make_shared<CandidateSet>();
  set->kind = CandidateSet::Kind::kMatching;
  set->matching = *matching;
  size_t num_calls = 0;
  backend_.OnTopK([&](absl::Span<const maxsim::Query> queries) {
    ++num_calls;
    EXPECT_TRUE(ValidateMask(queries[0], backend_.calls().back().num_documents, 0).ok());
    for (int64_t n = 0; n < queries[0].num_candidates; ++n) {
      const uint32_t ordinal = queries[0].ordinals[n];
      EXPECT_EQ(queries[0].mask[ordinal / 64] >> (ordinal % 64) & 1, 1u);
    }
    return absl::OkStatus();
  });
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(OneQuery(3, set));
  const auto results = Execute(engine->lane(0), jobs);
  EXPECT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(num_calls, num_parts_);
}

TEST_F(LaneCallsTest, AnEmptyBatchIsNothing) {
  const auto engine = MakeEngine(&backend_);
  BatchStats stats;
  stats.num_queries = 7;
  EXPECT_TRUE(engine->lane(0).Execute({}, &stats).empty());
  EXPECT_EQ(stats.num_queries, 0);
}

TEST_F(LaneCallsTest, EngineOptionsAreChecked) {
  for (const EngineOptions& bad :
       {EngineOptions{.num_lanes = 0, .executor = {}}, EngineOptions{.num_lanes = 65, .executor = {}},
        EngineOptions{.executor = {.max_queries = 0}}, EngineOptions{.executor = {.max_candidates = 0}},
        EngineOptions{.executor = {.max_staged_bytes = -1}}, EngineOptions{.executor = {}, .max_call_work = 0}}) {
    EXPECT_EQ(Engine::Create(&backend_, bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const auto engine = Engine::Create(&backend_, {.num_lanes = 3, .executor = {.max_queries = 5}});
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->num_lanes(), 3);
  EXPECT_EQ(backend_.executor_options().max_queries, 5);
  EXPECT_TRUE((*engine)->Health().ok());
}

}  // namespace
}  // namespace maxsim::engine
