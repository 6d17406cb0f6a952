// Turns batches of jobs into backend calls: splits candidates over a collection's parts, groups queries that share
// documents, runs the executors, merges the parts' top-k lists.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// Bytes that an inline document of `num_tokens` takes of ExecutorOptions::max_staged_bytes: a backend may pad the
// columns to a multiple of 8, and of i8 of 16.
int64_t StagedBytes(ScalarType type, int32_t dim, int64_t num_tokens);

struct EngineOptions {
  int num_lanes = 2;  // batches in flight at the same time
  ExecutorOptions executor;
  // Token pairs of one backend call, which cannot be interrupted: it bounds how late a cancellation, a deadline or a
  // shutdown takes effect. 2^36 pairs of dimension 128 are 18 TFLOP: a fraction of a second on a data-centre GPU, some
  // ten seconds on many CPU cores, and so much that what a cut costs does not show. A single document against a single
  // query may pass it.
  uint64_t max_call_work = uint64_t{1} << 36;
};

// What one batch did, for metrics and timings. Only calls that succeeded count.
struct BatchStats {
  int num_queries = 0;           // of jobs that were answered
  uint64_t token_pairs = 0;      // query tokens x candidate tokens that were scored
  uint64_t document_tokens = 0;  // tokens read: within one backend call, queries with the same candidates share them
  // As the executor reports them for scoring, summed over its calls; aligning counts as kernel time.
  CallTimings timings;
};

// A batch in flight: an executor with its own workspace (and stream). Used by one thread at a time.
//
// The executor's limits and max_call_work bound one call, not one request. The lane cuts a batch into calls that fit:
// fewer queries at a time, candidate lists in pieces, a whole-collection scan of a part with more than max_candidates
// documents or of more than max_call_work in ranges, inline documents in several stagings. Because a score depends on
// the query and the document alone, and results are merged in the one rank order, the answer has the same bits however
// the work was cut. So only three things about a single query can pass a limit: its tokens (max_query_tokens), the
// collection's dimension (max_dim), and one inline document larger than max_staged_bytes (columns counted up to a
// multiple of 8); they fail that query's job with RESOURCE_EXHAUSTED naming the value and the limit. (Choose
// max_candidates at least as large as the largest shard to let whole-collection scans share documents between as many
// queries as possible.)
class Lane {
 public:
  Lane(std::unique_ptr<Executor> executor, const ExecutorOptions& limits, uint64_t max_call_work);
  ~Lane();

  // Scores every query of every job. All jobs must be on the same collection generation (INTERNAL for those that are
  // not on the first one's). Returns one result a job, in order; queue_time is left zero, copy_time and kernel_time are
  // the batch's. Calls no `done`. `stats` (may be null) is overwritten.
  //
  // A job fails as a whole, with the error of its first query that fails, and does not fail its neighbours:
  // RESOURCE_EXHAUSTED beyond a limit, INVALID_ARGUMENT for fields that contradict each other, whatever the executor
  // says about one of its queries. A lost device (UNAVAILABLE) fails every job of the batch. Between calls, a job that
  // was cancelled or whose deadline has passed is dropped (CANCELLED, DEADLINE_EXCEEDED), and once `stop` (may be null)
  // is set every job is (UNAVAILABLE).
  std::vector<absl::StatusOr<JobResult>> Execute(absl::Span<Job* const> jobs, BatchStats* stats,
                                                 const std::atomic<bool>* stop = nullptr);

 private:
  class Batch;     // one Execute call
  struct Scratch;  // memory that is kept from batch to batch

  const std::unique_ptr<Executor> executor_;
  const ExecutorOptions limits_;
  const uint64_t max_call_work_;
  const std::unique_ptr<Scratch> scratch_;
};

// Owns the lanes of one backend.
class Engine {
 public:
  // Makes the lanes with their executors. `backend` must outlive the engine. INVALID_ARGUMENT for an option out of
  // range.
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
