// Makes jobs over a collection on disk.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/maxsim.h"
#include "kernels/reference.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::engine {

using CandidatesPtr = std::shared_ptr<const CandidateSet>;

inline CandidatesPtr WholeCollection() { return std::make_shared<CandidateSet>(); }

// Returns candidates with these ordinals. Their positions in the client's list are 0, `gap`, 2 * `gap` and so on. A gap
// above 1 means that the list also had ids that are no candidates.
inline CandidatesPtr Ordinals(std::vector<uint64_t> ordinals, uint32_t gap = 1) {
  auto set = std::make_shared<CandidateSet>();
  set->kind = CandidateSet::Kind::kOrdinals;
  for (size_t idx = 0; idx < ordinals.size(); ++idx) set->positions.push_back(static_cast<uint32_t>(idx) * gap);
  set->ordinals = std::move(ordinals);
  return set;
}

inline CandidatesPtr Inline(const test::RandomDocuments& documents) {
  auto set = std::make_shared<CandidateSet>();
  set->kind = CandidateSet::Kind::kInline;
  const DocumentsView view = documents.view();
  const auto* bytes = static_cast<const std::byte*>(view.tokens);
  set->inline_tokens.assign(bytes, bytes + view.num_tokens() * view.dim * static_cast<int64_t>(SizeOf(view.type)));
  set->inline_offsets = documents.offsets;
  set->inline_scales = documents.scales;
  return set;
}

inline JobQuery MakeJobQuery(const test::RandomQuery& query, CandidatesPtr candidates, int32_t top_k,
                             bool want_alignments = false) {
  JobQuery result;
  const auto* bytes = static_cast<const std::byte*>(query.tokens.data());
  result.tokens.assign(bytes, bytes + query.tokens.num_tokens() * query.tokens.dim() *
                                          static_cast<int64_t>(SizeOf(query.tokens.type())));
  result.weights = query.weights;
  result.num_tokens = static_cast<int32_t>(query.tokens.num_tokens());
  result.top_k = top_k;
  result.want_alignments = want_alignments;
  result.candidates = std::move(candidates);
  return result;
}

inline std::unique_ptr<Job> MakeJob(std::shared_ptr<const store::Collection> collection,
                                    std::vector<JobQuery> queries) {
  auto job = std::make_unique<Job>();
  job->collection = std::move(collection);
  job->queries = std::move(queries);
  ComputeWork(job.get());
  return job;
}

inline std::vector<absl::StatusOr<JobResult>> Execute(Lane& lane, const std::vector<std::unique_ptr<Job>>& jobs,
                                                      BatchStats* stats = nullptr) {
  std::vector<Job*> pointers;
  for (const auto& job : jobs) pointers.push_back(job.get());
  return lane.Execute(pointers, stats);
}

// Scores one query in its own batch. A failure fails the test.
inline JobQueryResult ExecuteOne(Lane& lane, std::shared_ptr<const store::Collection> collection, JobQuery query) {
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<JobQuery> queries;
  queries.push_back(std::move(query));
  jobs.push_back(MakeJob(std::move(collection), std::move(queries)));
  auto results = Execute(lane, jobs);
  EXPECT_TRUE(results[0].ok()) << results[0].status();
  return results[0].ok() ? std::move(results[0]->queries[0]) : JobQueryResult{};
}

// Checks that positions, ordinals, matches and the bits of scores are equal.
inline void ExpectSameResult(const JobQueryResult& expected, const JobQueryResult& actual) {
  ASSERT_EQ(expected.hits.size(), actual.hits.size());
  for (size_t idx = 0; idx < expected.hits.size(); ++idx) {
    EXPECT_EQ(std::bit_cast<uint32_t>(expected.hits[idx].score), std::bit_cast<uint32_t>(actual.hits[idx].score))
        << idx;
    EXPECT_EQ(expected.hits[idx].position, actual.hits[idx].position) << idx;
    EXPECT_EQ(expected.hits[idx].ordinal, actual.hits[idx].ordinal) << idx;
  }
  ASSERT_EQ(expected.matches.size(), actual.matches.size());
  for (size_t idx = 0; idx < expected.matches.size(); ++idx) {
    EXPECT_EQ(expected.matches[idx].document_token, actual.matches[idx].document_token) << idx;
    EXPECT_EQ(std::bit_cast<uint32_t>(expected.matches[idx].similarity),
              std::bit_cast<uint32_t>(actual.matches[idx].similarity))
        << idx;
  }
}

inline std::unique_ptr<Backend> MakeCpuBackend() {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = 2, .isa = ""});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

inline std::unique_ptr<Engine> MakeEngine(Backend* backend, const ExecutorOptions& limits = {},
                                          uint64_t max_call_work = EngineOptions{}.max_call_work) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create(backend, {.num_lanes = 1, .executor = limits, .max_call_work = max_call_work});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

}  // namespace maxsim::engine
