// The queries of a batch, shared by its devices. Private to the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "kernels/maxsim.h"
#include "server/engine/candidates_by_part.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// A query of the batch.
struct BatchQuery {
  size_t idx = 0;  // in BatchQueries::queries
  size_t job_idx = 0;
  size_t query_idx = 0;
  size_t group_idx = 0;  // in BatchQueries::groups
  const JobQuery* job_query = nullptr;
};

// A group of queries with the same candidates, which one backend call scores together: the queries from index
// first_query up to, but without, first_query + num_queries. All whole-collection queries form one group, and so do all
// queries with the same filter.
struct QueryGroup {
  const CandidateSet* set = nullptr;
  size_t first_query = 0;
  size_t num_queries = 0;
  size_t candidates_idx = 0;  // for kOrdinals: index in BatchQueries::candidates_by_part_
};

// Keeps its memory from batch to batch. One thread calls Assign; after that, any thread may read the batch and fail its
// jobs.
class BatchQueries {
 public:
  // Replaces the batch by `jobs` (at least one). Checks and groups their queries, and fails jobs that cannot be scored.
  void Assign(absl::Span<Job* const> jobs, const ExecutorOptions& limits, const std::atomic<bool>* stop);

  // The latest snapshot of the jobs' collections, whose documents are scored.
  const std::shared_ptr<const store::Collection>& snapshot() const { return collection_; }
  const store::Collection& collection() const { return *collection_; }
  absl::Span<Job* const> jobs() const { return jobs_; }
  // Returns the queries of the jobs that passed the checks, group by group.
  absl::Span<const BatchQuery> queries() const { return queries_; }
  absl::Span<const QueryGroup> groups() const { return groups_; }
  absl::Span<const BatchQuery> QueriesOf(const QueryGroup& group) const {
    return absl::MakeConstSpan(queries_).subspan(group.first_query, group.num_queries);
  }
  // Returns the candidates of a kOrdinals group. At least one query of the group must be alive (its job has not
  // failed), because otherwise the list may be that of an earlier batch.
  const CandidatesByPart& CandidatesOf(const QueryGroup& group) const {
    return candidates_by_part_[group.candidates_idx];
  }
  // Returns the number of a group's candidates that lie in a part of the collection and have no tombstone. For a
  // kOrdinals group, at least one query must be alive, as for CandidatesOf. Not for groups of inline documents.
  uint64_t NumCandidates(const QueryGroup& group, size_t part_idx) const;
  int64_t LongestQuery(const QueryGroup& group) const;

  // Returns false if the query's job has failed. It is then not scored further.
  bool Alive(const BatchQuery& query) const { return alive_[query.job_idx].load(std::memory_order_relaxed); }
  bool AnyAlive() const { return num_alive_.load(std::memory_order_relaxed) != 0; }
  bool AnyAlive(const QueryGroup& group) const;
  void Fail(size_t job_idx, const absl::Status& status);
  // Fails every job, and replaces the errors of jobs that have already failed. Used for errors after which no result of
  // the batch can be trusted.
  void FailAll(const absl::Status& status);
  // Fails jobs that are cancelled or late, and all jobs when the server stops.
  void DropCancelledAndExpired();
  absl::Status StatusOf(size_t job_idx) const;

 private:
  // Needs no lock: no other call runs beside Assign.
  void ResetStatuses(size_t num_jobs) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status CheckQuery(const JobQuery& query, const ExecutorOptions& limits) const;
  void AddJob(size_t job_idx, const ExecutorOptions& limits);
  size_t GroupOf(const CandidateSet* set);
  void GroupQueries();
  void SortCandidatesByPart();

  std::shared_ptr<const store::Collection> collection_;
  absl::Span<Job* const> jobs_;
  const std::atomic<bool>* stop_ = nullptr;
  std::vector<BatchQuery> queries_;
  std::vector<QueryGroup> groups_;
  absl::flat_hash_map<const void*, size_t> group_of_set_;  // by address of what a group's queries share
  std::vector<CandidatesByPart> candidates_by_part_;

  std::vector<std::atomic<bool>> alive_;  // at least [jobs]
  std::atomic<size_t> num_alive_{0};
  mutable Mutex mutex_;
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);  // [jobs]
};

}  // namespace maxsim::engine
