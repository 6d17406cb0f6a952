// Turns batches of jobs into backend calls. Splits candidates by the collection's parts and their devices, groups
// queries that share documents, runs the executors, and merges the parts' top-k lists.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/job.h"
#include "server/store/memory/device_set.h"

namespace maxsim::engine {

class BatchQueries;
class DeviceLoad;
class DeviceScanner;
class DeviceScorer;
class HelperThread;

// Returns how much an inline document of `num_tokens` counts towards ExecutorOptions::max_staged_bytes. It assumes
// columns padded to a multiple of 8, for i8 of 16, because a backend may pad them.
int64_t StagedBytes(ScalarType type, int32_t dim, int64_t num_tokens);

struct EngineOptions {
  int num_lanes = 2;  // batches in flight at the same time
  ExecutorOptions executor;
  // Limits the token pairs of one backend call, together with the backend's own BackendInfo::max_call_work. Scans of
  // codes on a GPU may have four times as many, and a call for a single document and a single query may have more. A
  // call cannot be interrupted, so this also bounds how late a cancellation, a deadline or a shutdown takes effect.
  uint64_t max_call_work = std::numeric_limits<uint64_t>::max();
};

// The work of one batch, for metrics and timings. Failed calls do not count.
struct BatchStats {
  struct Device {
    uint32_t device = 0;  // index in the engine's DeviceSet
    uint64_t token_pairs = 0;
    CallTimings timings;
  };

  int num_queries = 0;           // of jobs that were answered
  uint64_t token_pairs = 0;      // query tokens x candidate tokens that were scored
  uint64_t document_tokens = 0;  // tokens read: within one backend call, queries with the same candidates share them
  // The executors' timings, summed over their calls. Aligning counts as kernel time.
  CallTimings timings;
  std::vector<Device> devices;  // one for each device that worked on the batch

  // The scans of codes, and the scoring of the candidates that they chose.
  struct Refinements {
    std::array<uint64_t, 3> scans{};  // queries that were scanned, by planes: 1, 2 and 4 (BoundIndex)
    uint64_t documents = 0;           // candidates that were chosen, and scored
    uint64_t proofs = 0;              // answers of these queries that were proven
    uint64_t token_pairs = 0;         // query tokens x candidate tokens that were scanned
    double scan_seconds = 0;          // of the batch; devices work in parallel, so this is not their sum
    double refine_seconds = 0;        // of the batch, including queries that were not scanned
  } refinements;
};

// A lane scores one batch at a time. It has an executor with its own workspace (and CUDA stream) on each device. Only
// one thread at a time may use it.
//
// A batch whose documents lie on several devices is scored by all of them in parallel: the caller's thread works for
// the first device, and a helper thread for each other one. Documents that are replicated on several devices are scored
// by the device with the least work in flight.
//
// Queries whose candidates are scanned (IsScanned) take two steps. First the devices scan the codes of all candidates
// that they hold, and choose the best. Then the chosen candidates are scored exactly, like a list that the client sent.
//
// The executor's limits and max_call_work apply to one call, not to one request. The lane cuts a batch into calls that
// fit: fewer queries at a time, sublists of candidate lists, ranges of a part, and several copies of inline documents
// to the device. The answer has the same bits however the work is cut. So only three things about a single query can
// exceed a limit: its tokens (max_query_tokens), the collection's dimension (max_dim), and the size of one inline
// document (max_staged_bytes, see StagedBytes). Then the query's job fails with RESOURCE_EXHAUSTED naming the value and
// the limit. (Choose max_candidates at least as large as the largest shard, so that as many whole-collection queries as
// possible share one call.)
class Lane {
 public:
  ~Lane();

  // Scores every query of every job. All jobs must be on the same collection generation (version); a job on another
  // generation than the first job's gets INTERNAL. Returns one result per job, in order. In each, copy_time and
  // kernel_time are those of the whole batch on the device that took longest, and queue_time is zero. Does not call the
  // jobs' `done`. Overwrites `stats` (may be null).
  //
  // If a query fails, its whole job fails with the error of the first query that failed: RESOURCE_EXHAUSTED beyond a
  // limit, INVALID_ARGUMENT for fields that contradict each other, or the executor's error about the query. Other jobs
  // of the batch are not affected. Between backend calls, drops jobs that were cancelled (CANCELLED) or whose deadline
  // has passed (DEADLINE_EXCEEDED), and all jobs once `stop` (may be null) is set (UNAVAILABLE).
  //
  // If a device is lost (its executor returns UNAVAILABLE), marks it as lost in the DeviceSet. If on_device_loss is
  // kExit, or if it was the last device, every job of the batch fails. If it is kDegrade, devices with replicas take
  // over the lost device's work. Candidates without another replica are left out and counted
  // (JobQueryResult::num_unavailable); a job with fail_on_unavailable then fails with UNAVAILABLE.
  std::vector<absl::StatusOr<JobResult>> Execute(absl::Span<Job* const> jobs, BatchStats* stats,
                                                 const std::atomic<bool>* stop = nullptr);

 private:
  friend class Engine;
  class Batch;         // one Execute call
  class RefinedBatch;  // one Execute call that has queries to scan
  struct Scratch;      // memory that is kept from batch to batch

  Lane(store::DeviceSet* devices, DeviceLoad* load, const EngineOptions& options);
  // Creates an executor on every device, and the threads.
  absl::Status Prepare(const EngineOptions& options);
  // Runs `work` for several devices in parallel: for the first device on the calling thread, for each other one on a
  // helper thread. Waits until all are done.
  void RunOnDevices(absl::Span<const uint32_t> devices, absl::FunctionRef<void(uint32_t device)> work);

  store::DeviceSet* const devices_;
  DeviceLoad* const load_;
  const ExecutorOptions limits_;
  const std::unique_ptr<Scratch> scratch_;
  std::vector<std::unique_ptr<DeviceScorer>> scorers_;  // [devices]
  std::vector<std::unique_ptr<HelperThread>> helpers_;  // one less than devices
  // These are for batches that have queries to scan.
  const std::unique_ptr<BatchQueries> scanned_queries_;
  std::vector<std::unique_ptr<DeviceScanner>> scanners_;  // [devices]
};

// Owns the lanes.
class Engine {
 public:
  // Makes the lanes with their executors, on every device. `devices`, and their backends, must outlive the engine.
  // Returns INVALID_ARGUMENT if an option is out of range.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(store::DeviceSet* devices, const EngineOptions& options);
  // Creates an engine on one device, whose DeviceSet the engine owns.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Backend* backend, const EngineOptions& options);
  ~Engine();

  int num_lanes() const { return static_cast<int>(lanes_.size()); }
  Lane& lane(int idx) { return *lanes_[idx]; }
  // Returns OK while requests can be answered. Thread-safe and cheap.
  absl::Status Health() const;
  const store::DeviceSet& devices() const { return *devices_; }
  // Returns the number of lanes that are working on a device now.
  int lanes_busy(size_t device) const;

 private:
  Engine(std::unique_ptr<store::DeviceSet> owned, store::DeviceSet* devices);
  absl::Status AddLanes(const EngineOptions& options);

  const std::unique_ptr<store::DeviceSet> owned_devices_;
  store::DeviceSet* const devices_;
  const std::unique_ptr<DeviceLoad> load_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace maxsim::engine
