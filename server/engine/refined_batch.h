// A call of Lane::Execute with queries that are scanned. Private to the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/batch_queries.h"
#include "server/engine/device_choice.h"
#include "server/engine/device_scanner.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// Scans the codes of the candidates on all devices in parallel, and merges the candidates that the devices chose.
// Lane::Batch then scores the chosen candidates of each query exactly, as a list of ordinals, together with the queries
// that are not scanned. So the scores have the same bits as in a request for this list. If a query asks for a proof and
// the answer is not proven, candidates whose upper bounds reach its k-th score are scored, too, up to `budget`
// documents in all.
//
// If a device is lost meanwhile and the server goes on without it, the batch starts again on the remaining devices.
class Lane::RefinedBatch {
 public:
  // Returns whether a query of the jobs is scanned.
  static bool IsWanted(absl::Span<Job* const> jobs);

  RefinedBatch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop);
  RefinedBatch(const RefinedBatch&) = delete;
  RefinedBatch& operator=(const RefinedBatch&) = delete;

  std::vector<absl::StatusOr<JobResult>> Run();

 private:
  // The candidates that the scan found for one task.
  struct Choice {
    // The first num_refined candidates are the best, in no order, and the next one is the best of the rest. If
    // num_refined is the length of `best`, the last candidate is the worst.
    std::vector<ScannedCandidate> best;
    size_t num_refined = 0;
    uint64_t num_unavailable = 0;
    bool is_full = false;  // there may be candidates that are not in `best`
  };

  // refined_batch.cc:
  void AddTasks();
  uint64_t CountIn(size_t part_idx, const BatchQuery& query) const {
    return queries_.NumCandidates(queries_.groups()[query.group_idx], part_idx);
  }
  bool IsPartWanted(size_t part_idx) const;
  void AssignParts();
  void RunScanners();
  bool DropLostDevices();
  void FailIncompleteJobs();
  void Choose();
  // Sets choice->num_refined, and partly orders choice->best: the best `num_refined` candidates come first, in any
  // order, and after them the best of the rest. The caller may know that the first `num_ordered` candidates are the
  // best already (else 0); these stay where they are.
  static void Refine(size_t num_refined, size_t num_ordered, Choice* choice);
  void Scan();

  // refined_scores.cc:
  std::shared_ptr<const CandidateSet> SetOf(const ScanTask& task, absl::Span<const ScannedCandidate> chosen) const;
  // Scores copies of the batch's jobs that have `queries` in place of their own queries. Leaves out queries of jobs
  // that have failed.
  std::vector<absl::StatusOr<JobResult>> Execute(std::vector<std::vector<JobQuery>> queries);
  std::vector<absl::StatusOr<JobResult>> ScoreChosen();
  // Returns whether a chosen candidate is on a device that was lost since the scan.
  bool HasLostChosen(const std::vector<absl::StatusOr<JobResult>>& results) const;
  void Prove(std::vector<absl::StatusOr<JobResult>>* results);
  Refinement RefinementOf(size_t task_idx, const JobQueryResult& result) const;
  void Finish(std::vector<absl::StatusOr<JobResult>>* results);

  Lane& lane_;
  const absl::Span<Job* const> jobs_;
  BatchStats& stats_;
  const std::atomic<bool>* const stop_;
  BatchQueries& queries_;
  store::DeviceSet& devices_;
  int planes_ = 0;
  std::vector<ScanTask> tasks_;
  std::vector<Choice> choices_;         // [tasks]
  std::vector<uint32_t> part_devices_;  // [parts] the device that scans it, or kUnassigned, kUnavailable
  DeviceChoice choice_;
};

}  // namespace maxsim::engine
