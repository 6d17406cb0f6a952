#include "server/engine/batch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/device_load.h"
#include "server/engine/helper_thread.h"

namespace maxsim::engine {
namespace {

// What one batch counts for at most when devices are compared.
constexpr uint64_t kMostWork = uint64_t{1} << 52;

}  // namespace

std::vector<absl::StatusOr<JobResult>> Lane::Execute(absl::Span<Job* const> jobs, BatchStats* stats,
                                                     const std::atomic<bool>* stop) {
  BatchStats unused;
  if (stats == nullptr) stats = &unused;
  *stats = {};
  if (jobs.empty()) return {};
  return Batch(this, jobs, stats, stop).Run();
}

Lane::Batch::Batch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop)
    : lane_(*lane),
      scratch_(*lane->scratch_),
      queries_(scratch_.queries),
      stats_(*stats),
      collection_(*jobs.front()->collection),
      devices_(*lane->devices_) {
  queries_.Assign(jobs, lane->limits_, stop);
  const size_t num_runs = queries_.runs().size();
  scratch_.results.clear();
  scratch_.results.resize(num_runs);
  scratch_.part_devices.assign(collection_.parts().size(), kNobody);
  scratch_.group_devices.assign(queries_.groups().size(), kNobody);
  for (const std::unique_ptr<DeviceRun>& run : lane_.runs_) run->Begin(&queries_);
}

Lane::Batch::~Batch() {
  for (const auto& [device, work] : given_) lane_.load_->TakeBack(device, work);
}

std::vector<absl::StatusOr<JobResult>> Lane::Batch::Run() {
  do {
    GiveOutParts();
    GiveOutInlineDocuments();
    FailWhatMustBeWhole();
    RunDevices(&DeviceRun::Score);
    if (!AnyLost()) {
      MergeHits();
      AddHitsToAlign();
      RunDevices(&DeviceRun::Align);
    }
  } while (DropLostDevices());
  return Assemble();
}

bool Lane::Batch::IsWanted(size_t part_idx) const {
  return whole_ || std::any_of(scratch_.lists.begin(), scratch_.lists.end(), [&](const QueryGroup* group) {
           return !queries_.split(*group).ordinals(part_idx).empty();
         });
}

uint64_t Lane::Batch::WorkOfJobs() const {
  uint64_t work = 0;
  for (const Job* job : queries_.jobs()) work += std::min(job->work, kMostWork);
  return std::min(work, kMostWork);
}

uint64_t Lane::Batch::WorkOf(const QueryGroup& group) const {
  uint64_t query_tokens = 0;
  for (const QueryRun& run : queries_.RunsOf(group)) query_tokens += static_cast<uint64_t>(run.query->num_tokens);
  const uint64_t tokens = group.set->num_tokens(collection_);
  return tokens != 0 && query_tokens > kMostWork / tokens ? kMostWork : query_tokens * tokens;
}

uint32_t Lane::Batch::DeviceFor(const store::Collection::Part& part) {
  if (part.copies.size() == 1) {
    const uint32_t device = part.copies.front().device;
    return devices_.alive(device) ? device : kUnavailable;
  }
  // All parts of a collection that is copied have copies everywhere: one device takes them, and no other is disturbed.
  if (copies_device_ != kNobody && part.On(copies_device_) != nullptr) return copies_device_;
  scratch_.candidates.clear();
  for (const store::Collection::Copy& copy : part.copies) {
    if (devices_.alive(copy.device)) scratch_.candidates.push_back(copy.device);
  }
  if (scratch_.candidates.empty()) return kUnavailable;
  const uint64_t work = WorkOfJobs();
  copies_device_ = lane_.load_->GiveToLeastBusy(scratch_.candidates, work);
  given_.emplace_back(copies_device_, work);
  return copies_device_;
}

void Lane::Batch::GiveOutParts() {
  whole_ = false;
  scratch_.lists.clear();
  for (const QueryGroup& group : queries_.groups()) {
    if (!queries_.AnyAlive(group)) continue;
    whole_ = whole_ || group.set->kind == CandidateSet::Kind::kWholeCollection;
    if (group.set->kind == CandidateSet::Kind::kOrdinals) scratch_.lists.push_back(&group);
  }
  copies_device_ = kNobody;
  scratch_.device_tokens.assign(devices_.size(), 0);
  for (size_t idx = 0; idx < collection_.parts().size(); ++idx) {
    const store::Collection::Part& part = collection_.parts()[idx];
    if (scratch_.part_devices[idx] != kNobody || part.num_documents() == 0 || !IsWanted(idx)) continue;
    const uint32_t device = DeviceFor(part);
    scratch_.part_devices[idx] = device;
    any_unavailable_ = any_unavailable_ || device == kUnavailable;
    if (device == kUnavailable) continue;
    lane_.runs_[device]->AddPart(static_cast<uint32_t>(idx));
    if (part.copies.size() == 1) scratch_.device_tokens[device] += static_cast<uint64_t>(part.num_tokens());
  }
  NoteShares();
}

// What parts without copies make a device do, roughly: it counts where another batch chooses between copies.
void Lane::Batch::NoteShares() {
  if (devices_.size() == 1) return;
  double tokens = 0;
  for (const uint64_t of_device : scratch_.device_tokens) tokens += static_cast<double>(of_device);
  if (tokens == 0) return;
  const auto work = static_cast<double>(WorkOfJobs());
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    const auto share = static_cast<uint64_t>(work * static_cast<double>(scratch_.device_tokens[device]) / tokens);
    if (share == 0) continue;
    lane_.load_->Give(device, share);
    given_.emplace_back(device, share);
  }
}

void Lane::Batch::GiveOutInlineDocuments() {
  scratch_.candidates.clear();
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    if (devices_.alive(device)) scratch_.candidates.push_back(device);
  }
  for (size_t idx = 0; idx < queries_.groups().size(); ++idx) {
    const QueryGroup& group = queries_.groups()[idx];
    if (group.set->kind != CandidateSet::Kind::kInline || scratch_.group_devices[idx] != kNobody) continue;
    if (scratch_.candidates.empty()) {
      scratch_.group_devices[idx] = kUnavailable;
      any_unavailable_ = true;
      continue;
    }
    const uint64_t work = WorkOf(group);
    const uint32_t device = lane_.load_->GiveToLeastBusy(scratch_.candidates, work);
    given_.emplace_back(device, work);
    scratch_.group_devices[idx] = device;
    lane_.runs_[device]->AddInline(&group);
  }
}

uint64_t Lane::Batch::NumUnavailable(const QueryRun& run) const {
  const QueryGroup& group = queries_.groups()[run.group_idx];
  if (!any_unavailable_ || group.set->kind == CandidateSet::Kind::kInline) return 0;
  uint64_t count = 0;
  for (size_t idx = 0; idx < collection_.parts().size(); ++idx) {
    if (scratch_.part_devices[idx] != kUnavailable) continue;
    count += group.set->kind == CandidateSet::Kind::kWholeCollection
                 ? static_cast<uint64_t>(collection_.parts()[idx].num_documents())
                 : queries_.split(group).ordinals(idx).size();
  }
  return count;
}

void Lane::Batch::FailWhatMustBeWhole() {
  if (!any_unavailable_) return;
  for (const QueryRun& run : queries_.runs()) {
    if (!queries_.jobs()[run.job_idx]->fail_on_unavailable || !queries_.Alive(run)) continue;
    const uint64_t count = NumUnavailable(run);
    if (count == 0) continue;
    queries_.Fail(run.job_idx,
                  absl::UnavailableError(absl::StrCat("queries[", run.query_idx, "]: ", count,
                                                      " candidates are on a device that is lost (missing_policy is "
                                                      "FAIL)")));
  }
}

// One device needs no other thread.
void Lane::Batch::RunDevices(void (DeviceRun::*method)()) {
  std::vector<DeviceRun*>& working = scratch_.working;
  working.clear();
  for (const std::unique_ptr<DeviceRun>& run : lane_.runs_) {
    if (run->has_work() && queries_.AnyAlive()) working.push_back(run.get());
  }
  const auto work = [this, method](DeviceRun* run) {
    lane_.load_->Enter(run->device());
    (run->*method)();
    lane_.load_->Leave(run->device());
  };
  for (size_t idx = 1; idx < working.size(); ++idx) {
    lane_.helpers_[idx - 1]->Start([&work, run = working[idx]] { work(run); });
  }
  if (!working.empty()) work(working.front());
  for (size_t idx = 1; idx < working.size(); ++idx) lane_.helpers_[idx - 1]->Wait();
}

void Lane::Batch::MergeHits() {
  for (const QueryRun& run : queries_.runs()) {
    if (!queries_.Alive(run)) continue;
    JobQueryResult& result = scratch_.results[run.idx];
    result.hits.clear();
    int num_lists = 0;
    for (const std::unique_ptr<DeviceRun>& device : lane_.runs_) {
      const DeviceHits& found = device->found(run);
      result.hits.insert(result.hits.end(), found.hits.begin(), found.hits.end());
      num_lists += found.num_lists;
      // Inline documents are all on one device.
      if (!found.matches.empty()) result.matches = found.matches;
    }
    FinishHits(run.query->top_k, num_lists, &result.hits);
  }
}

void Lane::Batch::AddHitsToAlign() {
  for (const QueryRun& run : queries_.runs()) {
    if (!queries_.Alive(run) || !run.query->want_alignments ||
        queries_.groups()[run.group_idx].set->kind == CandidateSet::Kind::kInline) {
      continue;
    }
    JobQueryResult& result = scratch_.results[run.idx];
    const auto num_tokens = static_cast<size_t>(run.query->num_tokens);
    result.matches.resize(result.hits.size() * num_tokens);
    for (size_t idx = 0; idx < result.hits.size(); ++idx) {
      const store::Collection::Location place = collection_.Locate(result.hits[idx].ordinal);
      lane_.runs_[scratch_.part_devices[place.part]]->AddHitToAlign(
          {.run = &run,
           .part = place.part,
           .ordinal = place.ordinal,
           .matches = result.matches.data() + idx * num_tokens});
    }
  }
}

bool Lane::Batch::AnyLost() const {
  return std::any_of(lane_.runs_.begin(), lane_.runs_.end(),
                     [](const std::unique_ptr<DeviceRun>& run) { return !run->lost().ok(); });
}

bool Lane::Batch::DropLostDevices() {
  bool again = false;
  for (const std::unique_ptr<DeviceRun>& run : lane_.runs_) {
    const uint32_t device = run->device();
    const auto is_its = [device](uint32_t other) { return other == device; };
    const bool used = std::any_of(scratch_.part_devices.begin(), scratch_.part_devices.end(), is_its) ||
                      std::any_of(scratch_.group_devices.begin(), scratch_.group_devices.end(), is_its);
    if (!run->lost().ok()) devices_.Lose(device, run->lost());
    // Nothing that it said in this batch is to be trusted, whoever found out that it is lost.
    if (!used || devices_.alive(device)) continue;
    run->Forget();
    std::replace_if(scratch_.part_devices.begin(), scratch_.part_devices.end(), is_its, kNobody);
    std::replace_if(scratch_.group_devices.begin(), scratch_.group_devices.end(), is_its, kNobody);
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
  for (const std::unique_ptr<DeviceRun>& run : lane_.runs_) {
    const DeviceWork& work = run->work();
    if (work.token_pairs == 0 && work.timings.kernel_seconds == 0 && work.timings.copy_seconds == 0) continue;
    stats_.devices.push_back({run->device(), work.token_pairs, work.timings});
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
    result.copy_time = absl::Seconds(longest.copy_seconds);
    result.kernel_time = absl::Seconds(longest.kernel_seconds);
    stats_.num_queries += static_cast<int>(num_queries);
    results.emplace_back(std::move(result));
  }
  for (const QueryRun& run : queries_.runs()) {
    if (!results[run.job_idx].ok()) continue;
    JobQueryResult& result = scratch_.results[run.idx];
    result.num_unavailable = NumUnavailable(run);
    results[run.job_idx]->queries[run.query_idx] = std::move(result);
  }
  return results;
}

}  // namespace maxsim::engine
