#include "server/engine/batch_queries.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "client/error_details.h"
#include "kernels/codes/scan.h"

namespace maxsim::engine {

void BatchQueries::Assign(absl::Span<Job* const> jobs, const ExecutorOptions& limits, const std::atomic<bool>* stop) {
  collection_ = jobs.front()->collection;
  for (const Job* job : jobs) {
    if (job->collection->sequence() > collection_->sequence()) collection_ = job->collection;
  }
  jobs_ = jobs;
  stop_ = stop;
  queries_.clear();
  groups_.clear();
  group_of_set_.clear();
  if (alive_.size() < jobs.size()) alive_ = std::vector<std::atomic<bool>>(jobs.size());
  for (size_t idx = 0; idx < jobs.size(); ++idx) alive_[idx].store(true, std::memory_order_relaxed);
  num_alive_.store(jobs.size(), std::memory_order_relaxed);
  ResetStatuses(jobs.size());
  DropCancelledAndExpired();
  for (size_t job_idx = 0; job_idx < jobs.size(); ++job_idx) AddJob(job_idx, limits);
  GroupQueries();
  SortCandidatesByPart();
}

void BatchQueries::ResetStatuses(size_t num_jobs) { statuses_.assign(num_jobs, absl::OkStatus()); }

absl::Status BatchQueries::CheckQuery(const JobQuery& query, const ExecutorOptions& limits) const {
  if (query.candidates == nullptr) return absl::InvalidArgumentError("candidates are not set");
  if (query.candidates->kind == CandidateSet::Kind::kMatching && query.candidates->matching == nullptr) {
    return absl::InvalidArgumentError("the matching candidates are not set");
  }
  if (query.num_tokens < 1 || query.num_tokens > kMaxQueryTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("query has ", query.num_tokens, " tokens; must have 1 to ", kMaxQueryTokens));
  }
  const auto num_tokens = static_cast<size_t>(query.num_tokens);
  const size_t num_bytes =
      num_tokens * static_cast<size_t>(collection_->dim()) * SizeOf(QueryType(collection_->storage()));
  if (query.tokens.size() != num_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("query tokens are ", query.tokens.size(), " bytes; ", num_tokens,
                                                   " tokens of dimension ", collection_->dim(), " are ", num_bytes));
  }
  if (!query.weights.empty() && query.weights.size() != num_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("query has ", query.weights.size(), " weights and ", num_tokens, " tokens"));
  }
  if (query.top_k < 1 || query.top_k > kMaxTopK) {
    return absl::InvalidArgumentError(absl::StrCat("top_k is ", query.top_k, "; must be 1 to ", kMaxTopK));
  }
  if (const RefinementOptions& refinement = query.refinement;
      refinement.documents != 0 && (refinement.documents < query.top_k || refinement.documents > kMaxScanResults)) {
    return absl::InvalidArgumentError(absl::StrCat("refinement.documents is ", refinement.documents,
                                                   "; must be top_k (", query.top_k, ") to ", kMaxScanResults));
  }
  if (query.num_tokens > limits.max_query_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "query has ", query.num_tokens, " tokens; the engine's max_query_tokens is ", limits.max_query_tokens));
  }
  if (collection_->dim() > limits.max_dim) {
    return absl::ResourceExhaustedError(
        absl::StrCat("collection has dimension ", collection_->dim(), "; the engine's max_dim is ", limits.max_dim));
  }
  return absl::OkStatus();
}

void BatchQueries::AddJob(size_t job_idx, const ExecutorOptions& limits) {
  const Job& job = *jobs_[job_idx];
  if (job.collection != collection_ && (job.pinned || !job.collection->SharesDocumentsWith(*collection_))) {
    Fail(job_idx, absl::InternalError("a batch mixes generations of a collection"));
  }
  for (size_t query_idx = 0; query_idx < job.queries.size() && alive_[job_idx]; ++query_idx) {
    const absl::Status status = CheckQuery(job.queries[query_idx], limits);
    if (!status.ok()) {
      Fail(job_idx, client::WithField(status, absl::StrCat("queries[", query_idx, "]")));
    }
  }
  if (!alive_[job_idx]) return;
  for (size_t query_idx = 0; query_idx < job.queries.size(); ++query_idx) {
    queries_.push_back({.job_idx = job_idx, .query_idx = query_idx, .job_query = &job.queries[query_idx]});
  }
}

size_t BatchQueries::GroupOf(const CandidateSet* set) {
  const void* key = set;
  if (set->kind == CandidateSet::Kind::kWholeCollection) key = nullptr;
  if (set->kind == CandidateSet::Kind::kMatching) key = set->matching.get();
  const auto [found, inserted] = group_of_set_.try_emplace(key, groups_.size());
  if (inserted) groups_.push_back({.set = set});
  return found->second;
}

// Sorts the queries by group. Groups are in the order of their first queries.
void BatchQueries::GroupQueries() {
  for (const BatchQuery& query : queries_) ++groups_[GroupOf(query.job_query->candidates.get())].num_queries;
  std::stable_sort(queries_.begin(), queries_.end(), [this](const BatchQuery& a, const BatchQuery& b) {
    return GroupOf(a.job_query->candidates.get()) < GroupOf(b.job_query->candidates.get());
  });
  size_t next_query = 0;
  for (size_t group_idx = 0; group_idx < groups_.size(); ++group_idx) {
    groups_[group_idx].first_query = next_query;
    for (const size_t end = next_query + groups_[group_idx].num_queries; next_query < end; ++next_query) {
      queries_[next_query].idx = next_query;
      queries_[next_query].group_idx = group_idx;
    }
  }
}

void BatchQueries::SortCandidatesByPart() {
  size_t num_lists = 0;
  for (QueryGroup& group : groups_) {
    if (group.set->kind != CandidateSet::Kind::kOrdinals) continue;
    group.candidates_idx = num_lists++;
    if (candidates_by_part_.size() < num_lists) candidates_by_part_.resize(num_lists);
    const absl::Status status = candidates_by_part_[group.candidates_idx].Assign(*collection_, *group.set);
    if (status.ok()) continue;
    for (const BatchQuery& query : QueriesOf(group)) Fail(query.job_idx, status);
  }
}

uint64_t BatchQueries::NumCandidates(const QueryGroup& group, size_t part_idx) const {
  if (group.set->kind == CandidateSet::Kind::kMatching) return group.set->matching->num_documents(part_idx);
  if (group.set->kind != CandidateSet::Kind::kWholeCollection) return CandidatesOf(group).ordinals(part_idx).size();
  return static_cast<uint64_t>(collection_->part(part_idx).num_documents()) - collection_->num_tombstones(part_idx);
}

int64_t BatchQueries::LongestQuery(const QueryGroup& group) const {
  int64_t longest = 1;
  for (const BatchQuery& query : QueriesOf(group)) longest = std::max<int64_t>(longest, query.job_query->num_tokens);
  return longest;
}

bool BatchQueries::AnyAlive(const QueryGroup& group) const {
  const absl::Span<const BatchQuery> queries = QueriesOf(group);
  return std::any_of(queries.begin(), queries.end(), [this](const BatchQuery& query) { return Alive(query); });
}

void BatchQueries::Fail(size_t job_idx, const absl::Status& status) {
  const MutexLock lock(&mutex_);
  if (!statuses_[job_idx].ok()) return;
  statuses_[job_idx] = status;
  alive_[job_idx].store(false, std::memory_order_relaxed);
  num_alive_.fetch_sub(1, std::memory_order_relaxed);
}

void BatchQueries::FailAll(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  for (size_t idx = 0; idx < statuses_.size(); ++idx) {
    statuses_[idx] = status;
    alive_[idx].store(false, std::memory_order_relaxed);
  }
  num_alive_.store(0, std::memory_order_relaxed);
}

void BatchQueries::DropCancelledAndExpired() {
  const bool stopped = stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  const absl::Time now = MonotonicNow();
  for (size_t idx = 0; idx < jobs_.size(); ++idx) {
    const Job& job = *jobs_[idx];
    if (stopped) {
      Fail(idx, absl::UnavailableError("the server is shutting down"));
    } else if (job.deadline <= now) {  // The deadline is looked at first: gRPC cancels a call that expires.
      Fail(idx, absl::DeadlineExceededError("the deadline passed while the request was scored"));
    } else if (job.cancelled != nullptr && job.cancelled->load(std::memory_order_relaxed)) {
      Fail(idx, absl::CancelledError("the client cancelled the call while it was scored"));
    }
  }
}

absl::Status BatchQueries::StatusOf(size_t job_idx) const {
  const MutexLock lock(&mutex_);
  return statuses_[job_idx];
}

}  // namespace maxsim::engine
