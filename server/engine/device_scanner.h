// Scans the codes of a batch's documents on one device. Private to the lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/codes/query_codes.h"
#include "kernels/codes/scan.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/maxsim.h"
#include "server/engine/batch_queries.h"
#include "server/engine/job.h"
#include "server/store/memory/device_set.h"

namespace maxsim::engine {

// A query whose candidates are scanned.
struct ScanTask {
  const BatchQuery* query = nullptr;
  QueryCodes codes;
  ScanOrder order = ScanOrder::kEstimate;
  int32_t num_results = 0;  // 1 .. kMaxScanResults
};

// A candidate that a scan chose.
struct ScannedCandidate {
  float score = 0;        // an estimate of the candidate's score, or an upper bound of it
  uint64_t position = 0;  // index into CandidateSet::ordinals; for the whole collection the document's ordinal
};

// Scans codes on one device: an executor, and the memory that it needs. Reports that memory to the DeviceSet, in which
// the loading of codes has reserved it (DeviceSet::ScanBytesNeeded). Call BeginBatch first; then AddPart and Scan,
// several times if necessary. One thread at a time may use a scanner; scanners of different devices may run in
// parallel.
class DeviceScanner {
 public:
  // The maximum number of parts per call. A GPU spends at least about 50 us on each part (kernels/codes/scan_cost.cc),
  // so 256 parts take at least 13 ms.
  static constexpr size_t kMaxCallParts = 256;

  // `max_call_work` limits the token pairs of one call; only a call for one document and one query may have more.
  // `max_call_results` limits the results of one call; only a call for one query in one part may have more. `devices`
  // must outlive this object.
  DeviceScanner(uint32_t device, store::DeviceSet* devices, uint64_t max_call_work,
                int64_t max_call_results = kMaxScanCallResults)
      : device_(device), devices_(*devices), max_call_work_(max_call_work), max_call_results_(max_call_results) {}
  ~DeviceScanner();

  uint32_t device() const { return device_; }

  // `queries` and `tasks` must stay valid until the next BeginBatch. Tasks with the same candidates must be adjacent.
  void BeginBatch(BatchQueries* queries, absl::Span<const ScanTask> tasks);
  // Drops the added parts, the results and the error about a lost device.
  void Reset();

  void AddPart(uint32_t part) { parts_.push_back(part); }
  bool has_work() const { return !parts_.empty(); }
  // Scans the parts added since the last Scan, which must have codes on this device.
  void Scan();

  // Returns OK, or UNAVAILABLE if the device was lost and the results are void.
  const absl::Status& lost() const { return lost_; }
  // Returns the candidates that the scans chose for a task, in no order: its best num_results candidates, and some
  // others.
  const std::vector<ScannedCandidate>& found(size_t task_idx) const { return found_[task_idx]; }
  // Return the times of the successful calls, and their work in token pairs.
  const CallTimings& timings() const { return timings_; }
  uint64_t token_pairs() const { return token_pairs_; }

 private:
  // The candidates in one part that adjacent tasks share.
  struct Candidates {
    const store::Part* part = nullptr;
    const uint32_t* ordinals = nullptr;  // in the part; null for all documents
    // Indices into the query's list of candidates. Null if the candidates are the whole collection or come from a
    // filter.
    const uint32_t* indices = nullptr;
    int64_t count = 0;
    uint64_t num_tokens = 0;  // of the candidates, without those that the mask leaves out
    // Leaves out documents of the part that have a tombstone or do not match a filter.
    std::optional<store::ScanMask> mask = {};
    std::shared_ptr<const std::vector<uint32_t>> kept_list = {};  // owns `ordinals` if a filter made them
  };

  bool Alive(const ScanTask& task) const { return lost_.ok() && queries_->Alive(*task.query); }
  Candidates CandidatesIn(const store::Part& part, uint32_t part_idx, const QueryGroup& group) const;
  // Scans the parts for members_, whose candidates are those of the group.
  void ScanParts(const QueryGroup& group, int64_t max_tokens);
  // Scans candidates in ranges of `max_tokens` tokens, or of one longer document.
  void AddInRanges(const Candidates& candidates, int64_t max_tokens);
  // Adds candidates to pending_, so that one call scans several parts and waits for the GPU once. If a call for all of
  // them would exceed `max_tokens`, max_call_results_ or kMaxCallParts, first scans what is pending.
  void Add(const Candidates& candidates, int64_t max_tokens);
  // Scans pending_ for members_, and clears it.
  void ScanPending();
  absl::Status Call(absl::Span<const size_t> task_indices);
  // Tells devices_ what the executor's workspace takes now.
  void ReportWorkspace();
  // Adds the results of the call for pending_ to found_[task_idx]. results[part * step] has those of one part, in rank
  // order.
  void AddFound(size_t task_idx, const std::vector<Scored>* results, size_t step);

  const uint32_t device_;
  store::DeviceSet& devices_;
  const uint64_t max_call_work_;
  const int64_t max_call_results_;
  std::unique_ptr<ScanExecutor> executor_;  // made by the first scan
  size_t reported_bytes_ = 0;               // of its workspace

  BatchQueries* queries_ = nullptr;
  absl::Span<const ScanTask> tasks_;
  std::vector<uint32_t> parts_;
  absl::Status lost_;
  std::vector<std::vector<ScannedCandidate>> found_;  // at least one for each task
  CallTimings timings_;
  uint64_t token_pairs_ = 0;

  // Memory that is kept from call to call.
  std::vector<size_t> members_;      // tasks of one call
  std::vector<Candidates> pending_;  // of one call
  int64_t pending_tokens_ = 0;       // that a call for pending_ multiplies
  int64_t pending_results_ = 0;      // of such a call
  std::vector<ScanCall> calls_;
  std::vector<uint32_t> ordinals_;
  std::vector<ScanQuery> scan_queries_;
  std::vector<std::vector<Scored>> results_;
  std::vector<absl::Span<const Scored>> best_;  // of one task, by part of pending_
};

}  // namespace maxsim::engine
