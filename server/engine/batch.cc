#include "server/engine/batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace maxsim::engine {

Lane::Lane(std::unique_ptr<Executor> executor, const ExecutorOptions& limits, uint64_t max_call_work)
    : executor_(std::move(executor)),
      limits_(limits),
      max_call_work_(max_call_work),
      scratch_(std::make_unique<Scratch>()) {}

Lane::~Lane() = default;

std::vector<absl::StatusOr<JobResult>> Lane::Execute(absl::Span<Job* const> jobs, BatchStats* stats,
                                                     const std::atomic<bool>* stop) {
  BatchStats unused;
  if (stats == nullptr) stats = &unused;
  *stats = {};
  if (jobs.empty()) return {};
  return Batch(this, jobs, stats, stop).Run();
}

Lane::Batch::Batch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop)
    : executor_(*lane->executor_),
      limits_(lane->limits_),
      max_call_work_(lane->max_call_work_),
      scratch_(*lane->scratch_),
      jobs_(jobs),
      stats_(*stats),
      stop_(stop),
      collection_(*jobs.front()->collection),
      statuses_(jobs.size()) {}

std::vector<absl::StatusOr<JobResult>> Lane::Batch::Run() {
  Prepare();
  ScoreCollection();
  for (const QueryGroup& group : scratch_.groups) {
    if (group.set->kind == CandidateSet::Kind::kInline) ScoreInline(group);
  }
  return Assemble();
}

void Lane::Batch::Fail(size_t job_idx, const absl::Status& status) {
  if (statuses_[job_idx].ok()) statuses_[job_idx] = status;
}

void Lane::Batch::FailCall(size_t job_idx, const absl::Status& status) {
  if (!absl::IsUnavailable(status)) {
    Fail(job_idx, status);
    return;
  }
  // The device is lost: nothing it said in this batch is to be trusted, finished queries included.
  for (absl::Status& of_job : statuses_) of_job = status;
}

void Lane::Batch::DropCancelledAndExpired() {
  const bool stopped = stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  const absl::Time now = absl::Now();
  for (size_t idx = 0; idx < jobs_.size(); ++idx) {
    const Job& job = *jobs_[idx];
    if (stopped) {
      Fail(idx, absl::UnavailableError("the server is shutting down"));
    } else if (job.deadline <= now) {  // before the flag: gRPC cancels a call that expires
      Fail(idx, absl::DeadlineExceededError("the deadline passed while the request was scored"));
    } else if (job.cancelled != nullptr && job.cancelled->load(std::memory_order_relaxed)) {
      Fail(idx, absl::CancelledError("the request was cancelled while it was scored"));
    }
  }
}

bool Lane::Batch::AnyAlive() const {
  return std::any_of(statuses_.begin(), statuses_.end(), [](const absl::Status& status) { return status.ok(); });
}

absl::Span<QueryRun> Lane::Batch::RunsOf(const QueryGroup& group) {
  return absl::MakeSpan(scratch_.runs).subspan(group.first_run, group.num_runs);
}

absl::Status Lane::Batch::CheckQuery(const JobQuery& query) const {
  if (query.candidates == nullptr) return absl::InvalidArgumentError("candidates are not set");
  if (query.num_tokens < 1 || query.num_tokens > kMaxQueryTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("query has ", query.num_tokens, " tokens; it must have 1 to ", kMaxQueryTokens));
  }
  const auto num_tokens = static_cast<size_t>(query.num_tokens);
  const size_t num_bytes =
      num_tokens * static_cast<size_t>(collection_.dim()) * SizeOf(QueryType(collection_.storage()));
  if (query.tokens.size() != num_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("query tokens are ", query.tokens.size(), " bytes; ", num_tokens,
                                                   " tokens of dimension ", collection_.dim(), " are ", num_bytes));
  }
  if (!query.weights.empty() && query.weights.size() != num_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("query has ", query.weights.size(), " weights and ", num_tokens, " tokens"));
  }
  if (query.top_k < 1 || query.top_k > kMaxTopK) {
    return absl::InvalidArgumentError(absl::StrCat("top_k is ", query.top_k, "; it must be 1 to ", kMaxTopK));
  }
  if (query.num_tokens > limits_.max_query_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "query has ", query.num_tokens, " tokens; the engine's max_query_tokens is ", limits_.max_query_tokens));
  }
  if (collection_.dim() > limits_.max_dim) {
    return absl::ResourceExhaustedError(
        absl::StrCat("collection has dimension ", collection_.dim(), "; the engine's max_dim is ", limits_.max_dim));
  }
  return absl::OkStatus();
}

size_t Lane::Batch::GroupOf(const CandidateSet* set) {
  const bool whole = set->kind == CandidateSet::Kind::kWholeCollection;
  const auto [found, inserted] = scratch_.group_of_set.try_emplace(whole ? nullptr : set, scratch_.groups.size());
  if (inserted) scratch_.groups.push_back({.set = set});
  return found->second;
}

void Lane::Batch::Prepare() {
  scratch_.runs.clear();
  scratch_.groups.clear();
  scratch_.group_of_set.clear();
  DropCancelledAndExpired();
  for (size_t job_idx = 0; job_idx < jobs_.size(); ++job_idx) {
    const Job& job = *jobs_[job_idx];
    if (job.collection.get() != &collection_) {
      Fail(job_idx, absl::InternalError("a batch mixes generations of collections"));
    }
    for (size_t query_idx = 0; query_idx < job.queries.size() && statuses_[job_idx].ok(); ++query_idx) {
      const absl::Status status = CheckQuery(job.queries[query_idx]);
      if (!status.ok()) {
        Fail(job_idx, absl::Status(status.code(), absl::StrCat("queries[", query_idx, "]: ", status.message())));
      }
    }
    if (!statuses_[job_idx].ok()) continue;
    for (size_t query_idx = 0; query_idx < job.queries.size(); ++query_idx) {
      scratch_.runs.push_back({.job_idx = job_idx, .query_idx = query_idx, .query = &job.queries[query_idx]});
    }
  }
  // Runs of one group stand together, groups in the order of their first query.
  for (const QueryRun& run : scratch_.runs) ++scratch_.groups[GroupOf(run.query->candidates.get())].num_runs;
  std::stable_sort(scratch_.runs.begin(), scratch_.runs.end(), [this](const QueryRun& a, const QueryRun& b) {
    return GroupOf(a.query->candidates.get()) < GroupOf(b.query->candidates.get());
  });
  size_t first_run = 0;
  for (QueryGroup& group : scratch_.groups) {
    group.first_run = first_run;
    first_run += group.num_runs;
  }
}

std::vector<absl::StatusOr<JobResult>> Lane::Batch::Assemble() {
  std::vector<absl::StatusOr<JobResult>> results;
  results.reserve(jobs_.size());
  for (size_t idx = 0; idx < jobs_.size(); ++idx) {
    if (!statuses_[idx].ok()) {
      results.emplace_back(statuses_[idx]);
      continue;
    }
    JobResult result;
    result.queries.resize(jobs_[idx]->queries.size());
    result.copy_time = absl::Seconds(stats_.timings.copy_seconds);
    result.kernel_time = absl::Seconds(stats_.timings.kernel_seconds);
    stats_.num_queries += static_cast<int>(jobs_[idx]->queries.size());
    results.emplace_back(std::move(result));
  }
  for (QueryRun& run : scratch_.runs) {
    if (results[run.job_idx].ok()) results[run.job_idx]->queries[run.query_idx] = std::move(run.result);
  }
  return results;
}

}  // namespace maxsim::engine
