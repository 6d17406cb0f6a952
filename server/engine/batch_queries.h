// The queries of a batch, as every device that works on it sees them. Private to the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/candidate_split.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// A query of the batch.
struct QueryRun {
  size_t idx = 0;  // in BatchQueries::runs
  size_t job_idx = 0;
  size_t query_idx = 0;
  size_t group_idx = 0;  // in BatchQueries::groups
  const JobQuery* query = nullptr;
};

// Queries with the same candidates: runs[first_run] .. runs[first_run + num_runs]. Whole-collection queries are one
// group.
struct QueryGroup {
  const CandidateSet* set = nullptr;
  size_t first_run = 0;
  size_t num_runs = 0;
  size_t split = 0;  // for kOrdinals: of BatchQueries::split
};

// Keeps its memory from batch to batch. One thread assigns a batch; then any may look at it, and fail its jobs.
class BatchQueries {
 public:
  // Takes in the jobs of a batch (at least one): checks and groups their queries. Jobs that cannot be scored fail.
  void Assign(absl::Span<Job* const> jobs, const ExecutorOptions& limits, const std::atomic<bool>* stop);

  const store::Collection& collection() const { return *collection_; }
  absl::Span<Job* const> jobs() const { return jobs_; }
  // Of jobs that were good, group by group.
  absl::Span<const QueryRun> runs() const { return runs_; }
  absl::Span<const QueryGroup> groups() const { return groups_; }
  absl::Span<const QueryRun> RunsOf(const QueryGroup& group) const {
    return absl::MakeConstSpan(runs_).subspan(group.first_run, group.num_runs);
  }
  // Of a group of kOrdinals some of whose queries are alive: of others it may be that of an earlier batch.
  const CandidateSplit& split(const QueryGroup& group) const { return splits_[group.split]; }
  int64_t LongestQuery(const QueryGroup& group) const;

  // A job that failed is out of the batch: nothing more is scored for it.
  bool Alive(const QueryRun& run) const { return alive_[run.job_idx].load(std::memory_order_relaxed); }
  bool AnyAlive() const { return num_alive_.load(std::memory_order_relaxed) != 0; }
  bool AnyAlive(const QueryGroup& group) const;
  void Fail(size_t job_idx, const absl::Status& status);
  // Whatever was said of a job before: nothing that the batch found is to be trusted.
  void FailAll(const absl::Status& status);
  // Fails jobs that nobody waits for any more; asked between calls.
  void DropCancelledAndExpired();
  absl::Status StatusOf(size_t job_idx) const;

 private:
  absl::Status CheckQuery(const JobQuery& query, const ExecutorOptions& limits) const;
  void AddJob(size_t job_idx, const ExecutorOptions& limits);
  size_t GroupOf(const CandidateSet* set);
  void GroupRuns();
  void SplitLists();

  const store::Collection* collection_ = nullptr;
  absl::Span<Job* const> jobs_;
  const std::atomic<bool>* stop_ = nullptr;
  std::vector<QueryRun> runs_;
  std::vector<QueryGroup> groups_;
  absl::flat_hash_map<const CandidateSet*, size_t> group_of_set_;
  std::vector<CandidateSplit> splits_;

  std::vector<std::atomic<bool>> alive_;  // [jobs] at least
  std::atomic<size_t> num_alive_{0};
  mutable std::mutex mutex_;
  std::vector<absl::Status> statuses_;  // [jobs]; guarded by mutex_
};

}  // namespace maxsim::engine
