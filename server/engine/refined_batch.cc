#include "server/engine/refined_batch.h"

#include <algorithm>

#include "base/monotonic_clock.h"
#include "kernels/rank_order.h"
#include "kernels/scalar_type.h"
#include "server/engine/batch.h"

namespace maxsim::engine {
namespace {

// With this many planes (bits per value) of codes, a scan orders candidates by upper bounds, even if the request asks
// for no proof. These bounds are so tight that they prove most answers at no extra cost.
constexpr int kProvingPlanes = 4;

// Returns the codes of any part on any device. All have the same shape.
const LoadedCodes* AnyCodes(const store::Collection& collection) {
  for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
    for (const store::Replica& replica : collection.part(idx).replicas) {
      if (replica.codes != nullptr) return replica.codes.get();
    }
  }
  return nullptr;
}

bool AllHaveBounds(const store::Collection& collection, int planes) {
  for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
    const store::Part& part = collection.part(idx);
    if (part.num_documents() == 0) continue;
    for (const store::Replica& replica : part.replicas) {
      if (!replica.codes->has_bounds(planes)) return false;
    }
  }
  return true;
}

// Returns the query's tokens as FP32, rounded to QueryType as when scoring.
std::vector<float> Widened(const JobQuery& query, const store::Collection& collection) {
  std::vector<float> tokens(static_cast<size_t>(query.num_tokens) * static_cast<size_t>(collection.dim()));
  ConvertElements(QueryType(collection.storage()), query.tokens.data(), ScalarType::kF32, tokens.data(), tokens.size());
  return tokens;
}

}  // namespace

bool Lane::RefinedBatch::IsWanted(absl::Span<Job* const> jobs) {
  const store::Collection& collection = *jobs.front()->collection;
  if (collection.code_planes() == 0) return false;
  return std::any_of(jobs.begin(), jobs.end(), [&](const Job* job) {
    return std::any_of(job->queries.begin(), job->queries.end(),
                       [&](const JobQuery& query) { return IsScanned(query, collection); });
  });
}

Lane::RefinedBatch::RefinedBatch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats,
                                 const std::atomic<bool>* stop)
    : lane_(*lane),
      jobs_(jobs),
      stats_(*stats),
      stop_(stop),
      queries_(*lane->scanned_queries_),
      devices_(*lane->devices_),
      choice_(devices_, lane->load_) {
  queries_.Assign(jobs, lane->limits_, stop);
}

std::vector<absl::StatusOr<JobResult>> Lane::RefinedBatch::Run() {
  AddTasks();
  std::vector<absl::StatusOr<JobResult>> results;
  // Another round follows only if a device was lost during this one. So there is at most one round more than there are
  // devices.
  for (size_t round = 0; round <= devices_.size(); ++round) {
    const absl::Time start = MonotonicNow();
    Scan();
    const absl::Time scanned = MonotonicNow();
    stats_.refinements.scan_seconds += absl::ToDoubleSeconds(scanned - start);
    results = ScoreChosen();
    const bool again = HasLostChosen(results);
    if (!again) Prove(&results);
    stats_.refinements.refine_seconds += absl::ToDoubleSeconds(MonotonicNow() - scanned);
    if (!again) break;
  }
  Finish(&results);
  return results;
}

void Lane::RefinedBatch::AddTasks() {
  const store::Collection& collection = queries_.collection();
  planes_ = collection.code_planes();
  const LoadedCodes* const codes_of_part = AnyCodes(collection);
  // IsWanted looked at the snapshot of the first job. The batch uses the jobs' latest snapshot, which may have no
  // codes.
  const bool has_codes = planes_ > 0 && codes_of_part != nullptr;
  const bool has_bounds = has_codes && AllHaveBounds(collection, planes_);
  for (const BatchQuery& query : queries_.queries()) {
    const JobQuery& job_query = *query.job_query;
    if (!has_codes || !queries_.Alive(query) || !IsScanned(job_query, collection)) continue;
    absl::StatusOr<QueryCodes> codes =
        EncodeQuery(codes_of_part->shape(), planes_, Widened(job_query, collection), job_query.weights);
    if (!codes.ok()) {
      queries_.Fail(query.job_idx, codes.status());
      continue;
    }
    const RefinementOptions& options = job_query.refinement;
    const bool by_bound = has_bounds && (options.require_proof || planes_ >= kProvingPlanes);
    const int32_t wanted =
        options.require_proof && by_bound ? std::max(options.documents, options.budget) : options.documents;
    tasks_.push_back({.query = &query,
                      .codes = *std::move(codes),
                      .order = by_bound ? ScanOrder::kUpperBound : ScanOrder::kEstimate,
                      // Asks for one candidate more than are refined (scored exactly). The extra one has the highest
                      // score among the candidates that are left out.
                      .num_results = std::min(wanted + 1, kMaxScanResults)});
  }
  choices_.resize(tasks_.size());
  part_devices_.assign(collection.num_parts(), kUnassigned);
  for (const std::unique_ptr<DeviceScanner>& scanner : lane_.scanners_) scanner->BeginBatch(&queries_, tasks_);
}

bool Lane::RefinedBatch::IsPartWanted(size_t part_idx) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const ScanTask& task) {
    return queries_.Alive(*task.query) && CountIn(part_idx, *task.query) != 0;
  });
}

void Lane::RefinedBatch::AssignParts() {
  const store::Collection& collection = queries_.collection();
  choice_.BeginRound();
  for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
    const store::Part& part = collection.part(idx);
    if (part_devices_[idx] != kUnassigned || part.num_documents() == 0 || !IsPartWanted(idx)) continue;
    part_devices_[idx] = choice_.DeviceFor(part, jobs_);
    if (part_devices_[idx] != kUnavailable) lane_.scanners_[part_devices_[idx]]->AddPart(static_cast<uint32_t>(idx));
  }
}

// Runs every scanner that has work.
void Lane::RefinedBatch::RunScanners() {
  std::vector<uint32_t> working;
  for (const std::unique_ptr<DeviceScanner>& scanner : lane_.scanners_) {
    if (scanner->has_work() && queries_.AnyAlive()) working.push_back(scanner->device());
  }
  lane_.RunOnDevices(working, [this](uint32_t device) { lane_.scanners_[device]->Scan(); });
}

// Drops the candidates that lost devices found. Returns true if other devices must scan the parts of the lost devices.
bool Lane::RefinedBatch::DropLostDevices() {
  bool again = false;
  for (const std::unique_ptr<DeviceScanner>& scanner : lane_.scanners_) {
    const uint32_t device = scanner->device();
    if (!scanner->lost().ok()) devices_.MarkLost(device, scanner->lost());
    if (devices_.alive(device)) continue;
    if (std::find(part_devices_.begin(), part_devices_.end(), device) == part_devices_.end()) continue;
    scanner->Reset();
    std::replace(part_devices_.begin(), part_devices_.end(), device, kUnassigned);
    again = true;
  }
  if (again && !devices_.Health().ok()) {
    queries_.FailAll(devices_.Health());
    return false;
  }
  return again && queries_.AnyAlive();
}

void Lane::RefinedBatch::Scan() {
  do {
    AssignParts();
    FailIncompleteJobs();
    RunScanners();
  } while (DropLostDevices());
  Choose();
}

void Lane::RefinedBatch::FailIncompleteJobs() {
  for (size_t idx = 0; idx < tasks_.size(); ++idx) {
    const BatchQuery& query = *tasks_[idx].query;
    if (!queries_.Alive(query)) continue;
    uint64_t count = 0;
    for (size_t part = 0; part < part_devices_.size(); ++part) {
      if (part_devices_[part] == kUnavailable) count += CountIn(part, query);
    }
    choices_[idx].num_unavailable = count;
    if (count != 0 && jobs_[query.job_idx]->fail_on_unavailable) {
      queries_.Fail(query.job_idx, CandidatesLost(query.query_idx, count));
    }
  }
}

// Merges the candidates that the devices found.
void Lane::RefinedBatch::Choose() {
  for (size_t idx = 0; idx < tasks_.size(); ++idx) {
    const ScanTask& task = tasks_[idx];
    if (!queries_.Alive(*task.query)) continue;
    Choice& choice = choices_[idx];
    choice.best.clear();
    for (const std::unique_ptr<DeviceScanner>& scanner : lane_.scanners_) {
      const std::vector<ScannedCandidate>& found = scanner->found(idx);
      choice.best.insert(choice.best.end(), found.begin(), found.end());
    }
    const auto num_results = static_cast<size_t>(task.num_results);
    if (choice.best.size() > num_results) {
      std::nth_element(choice.best.begin(), choice.best.begin() + task.num_results, choice.best.end(), RanksBefore);
      choice.best.resize(num_results);
    }
    choice.is_full = choice.best.size() == num_results;
    const auto wanted = static_cast<size_t>(task.query->job_query->refinement.documents);
    Refine(std::min(choice.best.size(), wanted), 0, &choice);
  }
}

void Lane::RefinedBatch::Refine(size_t num_refined, size_t num_ordered, Choice* choice) {
  choice->num_refined = num_refined;
  if (choice->best.empty()) return;
  const size_t next = std::min(num_refined, choice->best.size() - 1);
  const auto begin = choice->best.begin();
  std::nth_element(begin + static_cast<ptrdiff_t>(std::min(num_ordered, next)), begin + static_cast<ptrdiff_t>(next),
                   choice->best.end(), RanksBefore);
}

}  // namespace maxsim::engine
