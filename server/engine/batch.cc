#include "server/engine/batch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "server/engine/refined_batch.h"

namespace maxsim::engine {

absl::Status CandidatesLost(size_t query_idx, uint64_t count) {
  return client::FieldError(absl::StatusCode::kUnavailable, client::kReasonDeviceLost,
                            absl::StrCat("queries[", query_idx, "]"),
                            absl::StrCat(count, " candidates are on a device that is lost (missing_policy is FAIL)"));
}

std::vector<absl::StatusOr<JobResult>> Lane::Execute(absl::Span<Job* const> jobs, BatchStats* stats,
                                                     const std::atomic<bool>* stop) {
  BatchStats unused;
  if (stats == nullptr) stats = &unused;
  *stats = {};
  if (jobs.empty()) return {};
  if (RefinedBatch::IsWanted(jobs)) return RefinedBatch(this, jobs, stats, stop).Run();
  return Batch(this, jobs, stats, stop).Run();
}

Lane::Batch::Batch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop)
    : lane_(*lane),
      scratch_(*lane->scratch_),
      queries_(scratch_.queries),
      stats_(*stats),
      devices_(*lane->devices_),
      choice_(devices_, lane->load_) {
  queries_.Assign(jobs, lane->limits_, stop);
  collection_ = queries_.snapshot().get();
  const size_t num_queries = queries_.queries().size();
  scratch_.results.clear();
  scratch_.results.resize(num_queries);
  scratch_.part_devices.assign(collection_->num_parts(), kUnassigned);
  scratch_.group_devices.assign(queries_.groups().size(), kUnassigned);
  for (const std::unique_ptr<DeviceScorer>& scorer : lane_.scorers_) scorer->BeginBatch(&queries_);
}

std::vector<absl::StatusOr<JobResult>> Lane::Batch::Run() {
  do {
    AssignParts();
    AssignInlineDocuments();
    FailIncompleteJobs();
    RunOnDevices(&DeviceScorer::Score);
    if (!AnyLost()) {
      MergeHits();
      AddHitsToAlign();
      RunOnDevices(&DeviceScorer::Align);
    }
  } while (DropLostDevices());
  return Assemble();
}

bool Lane::Batch::IsWanted(size_t part_idx) const {
  return scans_whole_collection_ ||
         std::any_of(scratch_.lists.begin(), scratch_.lists.end(),
                     [&](const QueryGroup* group) { return queries_.NumCandidates(*group, part_idx) != 0; });
}

uint64_t Lane::Batch::WorkOf(const QueryGroup& group) const {
  uint64_t query_tokens = 0;
  for (const BatchQuery& query : queries_.QueriesOf(group))
    query_tokens += static_cast<uint64_t>(query.job_query->num_tokens);
  const uint64_t tokens = group.set->num_tokens(*collection_);
  return tokens != 0 && query_tokens > kMaxWork / tokens ? kMaxWork : query_tokens * tokens;
}

void Lane::Batch::AssignParts() {
  scans_whole_collection_ = false;
  scratch_.lists.clear();
  for (const QueryGroup& group : queries_.groups()) {
    if (!queries_.AnyAlive(group)) continue;
    scans_whole_collection_ = scans_whole_collection_ || group.set->kind == CandidateSet::Kind::kWholeCollection;
    const bool is_list =
        group.set->kind == CandidateSet::Kind::kOrdinals || group.set->kind == CandidateSet::Kind::kMatching;
    if (is_list) scratch_.lists.push_back(&group);
  }
  choice_.BeginRound();
  scratch_.device_tokens.assign(devices_.size(), 0);
  for (size_t idx = 0; idx < collection_->num_parts(); ++idx) {
    const store::Part& part = collection_->part(idx);
    if (scratch_.part_devices[idx] != kUnassigned || part.num_documents() == 0 || !IsWanted(idx)) continue;
    const uint32_t device = choice_.DeviceFor(part, queries_.jobs());
    scratch_.part_devices[idx] = device;
    any_unavailable_ = any_unavailable_ || device == kUnavailable;
    if (device == kUnavailable) continue;
    lane_.scorers_[device]->AddPart(static_cast<uint32_t>(idx));
    if (part.replicas.size() == 1) scratch_.device_tokens[device] += static_cast<uint64_t>(part.num_tokens());
  }
  RecordPartLoad();
}

// Adds this batch's work to the load of the devices that hold parts without replicas, in proportion to the tokens of
// these parts. Other batches choose the least loaded device for parts with replicas.
void Lane::Batch::RecordPartLoad() {
  if (devices_.size() == 1) return;
  double tokens = 0;
  for (const uint64_t of_device : scratch_.device_tokens) tokens += static_cast<double>(of_device);
  if (tokens == 0) return;
  const auto work = static_cast<double>(WorkOfJobs(queries_.jobs()));
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    const auto share = static_cast<uint64_t>(work * static_cast<double>(scratch_.device_tokens[device]) / tokens);
    if (share != 0) choice_.Add(device, share);
  }
}

void Lane::Batch::AssignInlineDocuments() {
  scratch_.candidates.clear();
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    if (devices_.alive(device)) scratch_.candidates.push_back(device);
  }
  for (size_t idx = 0; idx < queries_.groups().size(); ++idx) {
    const QueryGroup& group = queries_.groups()[idx];
    if (group.set->kind != CandidateSet::Kind::kInline || scratch_.group_devices[idx] != kUnassigned) continue;
    if (scratch_.candidates.empty()) {
      scratch_.group_devices[idx] = kUnavailable;
      any_unavailable_ = true;
      continue;
    }
    const uint32_t device = choice_.LeastBusy(scratch_.candidates, WorkOf(group));
    scratch_.group_devices[idx] = device;
    lane_.scorers_[device]->AddInline(&group);
  }
}

uint64_t Lane::Batch::NumUnavailable(const BatchQuery& query) const {
  const QueryGroup& group = queries_.groups()[query.group_idx];
  if (!any_unavailable_ || group.set->kind == CandidateSet::Kind::kInline) return 0;
  uint64_t count = 0;
  for (size_t idx = 0; idx < collection_->num_parts(); ++idx) {
    if (scratch_.part_devices[idx] != kUnavailable) continue;
    count += queries_.NumCandidates(group, idx);
  }
  return count;
}

void Lane::Batch::FailIncompleteJobs() {
  if (!any_unavailable_) return;
  for (const BatchQuery& query : queries_.queries()) {
    if (!queries_.jobs()[query.job_idx]->fail_on_unavailable || !queries_.Alive(query)) continue;
    const uint64_t count = NumUnavailable(query);
    if (count == 0) continue;
    queries_.Fail(query.job_idx, CandidatesLost(query.query_idx, count));
  }
}

// Runs `method` of every scorer that has work.
void Lane::Batch::RunOnDevices(void (DeviceScorer::*method)()) {
  scratch_.working.clear();
  for (const std::unique_ptr<DeviceScorer>& scorer : lane_.scorers_) {
    if (scorer->has_work() && queries_.AnyAlive()) scratch_.working.push_back(scorer->device());
  }
  lane_.RunOnDevices(scratch_.working, [this, method](uint32_t device) { ((*lane_.scorers_[device]).*method)(); });
}

void Lane::Batch::MergeHits() {
  for (const BatchQuery& query : queries_.queries()) {
    if (!queries_.Alive(query)) continue;
    JobQueryResult& result = scratch_.results[query.idx];
    result.hits.clear();
    int num_lists = 0;
    for (const std::unique_ptr<DeviceScorer>& scorer : lane_.scorers_) {
      const DeviceHits& found = scorer->found(query);
      result.hits.insert(result.hits.end(), found.hits.begin(), found.hits.end());
      num_lists += found.num_lists;
      // All inline documents of a query are on one device: only one scorer has matches.
      if (!found.matches.empty()) result.matches = found.matches;
    }
    FinishHits(query.job_query->top_k, num_lists, &result.hits);
  }
}

void Lane::Batch::AddHitsToAlign() {
  for (const BatchQuery& query : queries_.queries()) {
    if (!queries_.Alive(query) || !query.job_query->want_alignments ||
        queries_.groups()[query.group_idx].set->kind == CandidateSet::Kind::kInline) {
      continue;
    }
    JobQueryResult& result = scratch_.results[query.idx];
    const auto num_tokens = static_cast<size_t>(query.job_query->num_tokens);
    result.matches.resize(result.hits.size() * num_tokens);
    for (size_t idx = 0; idx < result.hits.size(); ++idx) {
      const store::Location location = collection_->Locate(result.hits[idx].ordinal);
      lane_.scorers_[scratch_.part_devices[location.part]]->AddHitToAlign(
          {.query = &query,
           .part = location.part,
           .ordinal = location.ordinal,
           .matches = result.matches.data() + idx * num_tokens});
    }
  }
}

bool Lane::Batch::AnyLost() const {
  return std::any_of(lane_.scorers_.begin(), lane_.scorers_.end(),
                     [](const std::unique_ptr<DeviceScorer>& scorer) { return !scorer->lost().ok(); });
}

bool Lane::Batch::DropLostDevices() {
  bool again = false;
  for (const std::unique_ptr<DeviceScorer>& scorer : lane_.scorers_) {
    const uint32_t device = scorer->device();
    const auto is_this_device = [device](uint32_t other) { return other == device; };
    const bool used = std::any_of(scratch_.part_devices.begin(), scratch_.part_devices.end(), is_this_device) ||
                      std::any_of(scratch_.group_devices.begin(), scratch_.group_devices.end(), is_this_device);
    if (!scorer->lost().ok()) devices_.MarkLost(device, scorer->lost());
    // Discard all results of a lost device, also if another batch noticed the loss.
    if (!used || devices_.alive(device)) continue;
    scorer->Reset();
    std::replace_if(scratch_.part_devices.begin(), scratch_.part_devices.end(), is_this_device, kUnassigned);
    std::replace_if(scratch_.group_devices.begin(), scratch_.group_devices.end(), is_this_device, kUnassigned);
    again = true;
  }
  if (!devices_.Health().ok() && (again || any_unavailable_)) {
    queries_.FailAll(devices_.Health());
    return false;
  }
  return again && queries_.AnyAlive();
}

std::vector<absl::StatusOr<JobResult>> Lane::Batch::Assemble() {
  CallTimings longest;
  for (const std::unique_ptr<DeviceScorer>& scorer : lane_.scorers_) {
    const DeviceWork& work = scorer->work();
    if (work.token_pairs == 0 && work.timings.kernel_seconds == 0 && work.timings.copy_seconds == 0) continue;
    stats_.devices.push_back({scorer->device(), work.token_pairs, work.timings});
    stats_.token_pairs += work.token_pairs;
    stats_.document_tokens += work.document_tokens;
    stats_.timings += work.timings;
    longest.copy_seconds = std::max(longest.copy_seconds, work.timings.copy_seconds);
    longest.kernel_seconds = std::max(longest.kernel_seconds, work.timings.kernel_seconds);
  }
  std::vector<absl::StatusOr<JobResult>> results;
  results.reserve(queries_.jobs().size());
  for (size_t idx = 0; idx < queries_.jobs().size(); ++idx) {
    const size_t num_queries = queries_.jobs()[idx]->queries.size();
    if (absl::Status status = queries_.StatusOf(idx); !status.ok()) {
      results.emplace_back(std::move(status));
      continue;
    }
    JobResult result;
    result.queries.resize(num_queries);
    const Job& job = *queries_.jobs()[idx];
    result.collection = AnsweredBy(job, queries_.snapshot());
    result.copy_time = absl::Seconds(longest.copy_seconds);
    result.kernel_time = absl::Seconds(longest.kernel_seconds);
    stats_.num_queries += static_cast<int>(num_queries);
    results.emplace_back(std::move(result));
  }
  for (const BatchQuery& query : queries_.queries()) {
    if (!results[query.job_idx].ok()) continue;
    JobQueryResult& result = scratch_.results[query.idx];
    result.num_unavailable = NumUnavailable(query);
    results[query.job_idx]->queries[query.query_idx] = std::move(result);
  }
  return results;
}

}  // namespace maxsim::engine
