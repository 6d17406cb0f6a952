// One Lane::Execute call: a batch over the devices of its collection. Private to the lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/engine/batch_queries.h"
#include "server/engine/device_run.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// Memory that a lane keeps from batch to batch.
struct Lane::Scratch {
  BatchQueries queries;
  std::vector<JobQueryResult> results;   // [runs]
  std::vector<uint32_t> part_devices;    // [parts] who scores it, or kNobody, kUnavailable
  std::vector<uint32_t> group_devices;   // [groups] the same of inline documents
  std::vector<const QueryGroup*> lists;  // groups of kOrdinals that somebody waits for
  std::vector<DeviceRun*> working;       // of one RunDevices
  std::vector<uint32_t> candidates;      // devices to choose from
  std::vector<uint64_t> device_tokens;   // [devices] of parts given to each in one round
};

// Prepares the queries, gives every part of the collection that somebody wants, and every set of inline documents, to a
// device, lets the devices score beside each other, and merges what they found. Where a device is lost on the way and
// the server goes on without it, what it had goes to the devices that have copies, and the rest is counted as
// unavailable.
class Lane::Batch {
 public:
  Batch(Lane* lane, absl::Span<Job* const> jobs, BatchStats* stats, const std::atomic<bool>* stop);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::vector<absl::StatusOr<JobResult>> Run();

 private:
  static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();           // not given to anybody yet
  static constexpr uint32_t kUnavailable = std::numeric_limits<uint32_t>::max() - 1;  // and it cannot be

  // Before scoring: who does what.
  void GiveOutParts();
  void GiveOutInlineDocuments();
  bool IsWanted(size_t part_idx) const;
  uint32_t DeviceFor(const store::Collection::Part& part);
  void NoteShares();
  uint64_t WorkOfJobs() const;
  uint64_t WorkOf(const QueryGroup& group) const;
  void FailWhatMustBeWhole();
  uint64_t NumUnavailable(const QueryRun& run) const;

  // Scoring.
  void RunDevices(void (DeviceRun::*method)());
  void MergeHits();
  void AddHitsToAlign();
  // Whether a device was lost in this round.
  bool AnyLost() const;
  // Forgets what lost devices found. Whether others have to take over.
  bool DropLostDevices();

  std::vector<absl::StatusOr<JobResult>> Assemble();

  Lane& lane_;
  Scratch& scratch_;
  BatchQueries& queries_;
  BatchStats& stats_;
  const store::Collection& collection_;
  store::DeviceSet& devices_;
  bool whole_ = false;                                // somebody waits for whole-collection queries
  bool any_unavailable_ = false;                      // of the parts that are wanted
  uint32_t copies_device_ = kNobody;                  // takes the parts that have copies, in this round
  std::vector<std::pair<uint32_t, uint64_t>> given_;  // device, work: what DeviceLoad holds for this batch
};

}  // namespace maxsim::engine
