// One Lane::Execute call. Private to the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/candidate_split.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// A query of the batch on its way.
struct QueryRun {
  size_t job_idx = 0;
  size_t query_idx = 0;
  const JobQuery* query = nullptr;
  int num_lists = 0;           // result lists in `result.hits`; more than one need sorting
  JobQueryResult result = {};  // hits gather here, call by call
};

// Queries with the same candidates: runs[first_run] .. runs[first_run + num_runs]. Whole-collection queries are one
// group.
struct QueryGroup {
  const CandidateSet* set = nullptr;
  size_t first_run = 0;
  size_t num_runs = 0;
  size_t split = 0;  // index into Scratch::splits, for kOrdinals
};

// One query against some candidates of one set of documents: what a backend call is made of.
struct Task {
  QueryRun* run = nullptr;
  const uint32_t* ordinals = nullptr;  // null: all documents
  int64_t num_candidates = 0;
  // Result position p is candidate indices[p] of the query's list; where that is null, the document base + p.
  const uint32_t* indices = nullptr;
  uint64_t base = 0;
  uint64_t num_tokens = 0;  // of the candidates
};

// A hit of a collection and where its document lies.
struct HitPlace {
  uint32_t part = 0;
  uint32_t ordinal = 0;
  size_t hit_idx = 0;
};

struct Lane::Scratch {
  std::vector<QueryRun> runs;
  std::vector<QueryGroup> groups;
  absl::flat_hash_map<const CandidateSet*, size_t> group_of_set;
  std::vector<CandidateSplit> splits;
  std::vector<Task> tasks;
  std::vector<Task> wave;
  std::vector<Query> queries;
  std::vector<std::vector<Scored>> results;
  std::vector<uint32_t> ordinals;   // of a range, or of hits to be aligned
  std::vector<int64_t> offsets;     // of a staged range
  std::vector<std::byte> tokens;    // of a staged range that lies at an odd address
  std::vector<TokenMatch> matches;  // of one Align call
  std::vector<HitPlace> places;
  std::vector<std::pair<uint32_t, size_t>> hits;  // document, index of the hit
};

class Lane::Batch {
 public:
  Batch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop);
  std::vector<absl::StatusOr<JobResult>> Run();

 private:
  // batch.cc: from jobs to groups of queries, and back to results.
  void Prepare();
  absl::Status CheckQuery(const JobQuery& query) const;
  size_t GroupOf(const CandidateSet* set);
  std::vector<absl::StatusOr<JobResult>> Assemble();

  // A job that failed is out of the batch: nothing more is scored for it.
  bool Alive(const QueryRun& run) const { return statuses_[run.job_idx].ok(); }
  bool AnyAlive() const;
  void Fail(size_t job_idx, const absl::Status& status);
  // A call failed on account of one query (or of the device: then every job fails).
  void FailCall(size_t job_idx, const absl::Status& status);
  void DropCancelledAndExpired();
  absl::Span<QueryRun> RunsOf(const QueryGroup& group);

  // batch_scoring.cc: backend calls.
  void ScoreCollection();
  void SplitLists();
  void ScorePart(size_t part_idx);
  int64_t LongestQuery(const QueryGroup& group);
  int64_t MaxTokens(int64_t query_tokens) const;
  void AddWholePart(const QueryGroup& group, const store::Collection::Part& part);
  void ScoreWholePartInRanges(const QueryGroup& group, const store::Collection::Part& part);
  void AddListedCandidates(const QueryGroup& group, size_t part_idx);
  void RunTasks(const Documents& documents);
  void RunWave(const Documents& documents, absl::Span<const Task> wave);
  void Absorb(const Task& task, absl::Span<const Scored> scored);
  void FinishHits(QueryRun* run) const;
  void ScoreInline(const QueryGroup& group);
  absl::Status CheckInline(const CandidateSet& set) const;
  int64_t EndOfStage(const QueryGroup& group, int64_t begin);
  const Documents* Stage(const QueryGroup& group, int64_t begin, int64_t end);

  // batch_alignment.cc: token matches of the hits.
  bool WantsAlignments(const QueryRun& run) const;
  void AlignCollectionHits(QueryRun* run);
  void AlignInlineHits(const QueryGroup& group, const Documents& documents, int64_t begin, int64_t end);
  void AlignHits(QueryRun* run, const Documents& documents, absl::Span<const std::pair<uint32_t, size_t>> hits);

  DocumentsView InlineView(const CandidateSet& set) const;
  Query ToQuery(const QueryRun& run) const;

  Executor& executor_;
  const ExecutorOptions& limits_;
  const uint64_t max_call_work_;
  Scratch& scratch_;
  const absl::Span<Job* const> jobs_;
  BatchStats& stats_;
  const std::atomic<bool>* const stop_;
  const store::Collection& collection_;
  std::vector<absl::Status> statuses_;  // of the jobs
};

}  // namespace maxsim::engine
