// Turns batches of jobs into backend calls: splits candidates over a collection's parts, groups queries that share
// documents, runs the executors, merges the parts' top-k lists.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/job.h"

namespace maxsim::engine {

struct EngineOptions {
  int num_lanes = 2;  // batches in flight at the same time
  ExecutorOptions executor;
};

// What one batch did, for metrics and timings.
struct BatchStats {
  int num_queries = 0;
  uint64_t token_pairs = 0;
  uint64_t document_tokens = 0;  // tokens read, counted once for queries that share them
  CallTimings timings;
};

// A batch in flight: an executor with its own workspace (and stream). Used by one thread at a time.
class Lane {
 public:
  Lane(std::unique_ptr<Executor> executor, const ExecutorOptions& limits);

  // Scores every query of every job. All jobs must be on the same collection generation. Returns one result a job, in
  // order; a job that fails (a query beyond the executor's limits, say) does not fail its neighbours. Calls no `done`.
  std::vector<absl::StatusOr<JobResult>> Execute(absl::Span<Job* const> jobs, BatchStats* stats);

 private:
  std::unique_ptr<Executor> executor_;
  const ExecutorOptions limits_;
};

// Owns the lanes of one backend.
class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Backend* backend, const EngineOptions& options);
  int num_lanes() const { return static_cast<int>(lanes_.size()); }
  Lane& lane(int idx) { return *lanes_[idx]; }
  // The backend's health (UNAVAILABLE after a device failure).
  absl::Status Health() const;

 private:
  Engine(Backend* backend, std::vector<std::unique_ptr<Lane>> lanes);
  Backend* const backend_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace maxsim::engine
