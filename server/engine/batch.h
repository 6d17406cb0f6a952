// One call of Lane::Execute: scores a batch. Private to the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/batch_queries.h"
#include "server/engine/device_choice.h"
#include "server/engine/device_scorer.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// Memory that a lane keeps from batch to batch.
struct Lane::Scratch {
  BatchQueries queries;
  std::vector<JobQueryResult> results;   // [queries]
  std::vector<uint32_t> part_devices;    // [parts] the device that scores it, or kUnassigned, kUnavailable
  std::vector<uint32_t> group_devices;   // [groups] the same for its inline documents
  std::vector<const QueryGroup*> lists;  // groups of kOrdinals and kMatching that have a query alive
  std::vector<uint32_t> working;         // devices that have work in one RunOnDevices
  std::vector<uint32_t> candidates;      // devices to choose from
  std::vector<uint64_t> device_tokens;   // [devices] tokens of the parts without replicas assigned in one round
};

// Returns the UNAVAILABLE error of a job with fail_on_unavailable: `count` candidates of its query `query_idx` are on
// lost devices.
absl::Status CandidatesLost(size_t query_idx, uint64_t count);

// Assigns the parts of the collection that the queries need, and the inline documents of requests, to devices. Lets the
// devices score in parallel, and merges their top-k lists. If a device is lost meanwhile and the server goes on without
// it, assigns the device's documents to devices that have replicas, and counts documents without another replica as
// unavailable.
class Lane::Batch {
 public:
  Batch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::vector<absl::StatusOr<JobResult>> Run();

 private:
  // Assigns parts to devices, before scoring.
  void AssignParts();
  void AssignInlineDocuments();
  bool IsWanted(size_t part_idx) const;
  void RecordPartLoad();
  uint64_t WorkOf(const QueryGroup& group) const;
  void FailIncompleteJobs();
  uint64_t NumUnavailable(const BatchQuery& query) const;

  // Scores on all devices of the batch side by side.
  void RunOnDevices(void (DeviceScorer::*method)());
  void MergeHits();
  void AddHitsToAlign();
  // Returns whether a device was lost in this round.
  bool AnyLost() const;
  // Drops the hits of lost devices. Returns true if others must do their work.
  bool DropLostDevices();

  std::vector<absl::StatusOr<JobResult>> Assemble();

  Lane& lane_;
  Scratch& scratch_;
  BatchQueries& queries_;
  BatchStats& stats_;
  const store::Collection* collection_ = nullptr;  // the latest of the jobs' snapshots
  store::DeviceSet& devices_;
  bool scans_whole_collection_ = false;  // A whole-collection query is alive.
  bool any_unavailable_ = false;         // A part that a query needs is kUnavailable.
  DeviceChoice choice_;
};

}  // namespace maxsim::engine
