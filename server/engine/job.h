// Has rerank requests as they are inside the server: everything is validated, ids are resolved, values are converted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/maxsim.h"
#include "server/store/collection/collection.h"

namespace maxsim::engine {

// The documents that a query is scored against.
struct CandidateSet {
  enum class Kind { kWholeCollection, kOrdinals, kInline };
  Kind kind = Kind::kWholeCollection;

  // kOrdinals has collection ordinals without repeats, and for each its index in the list as the client sent it (so
  // that missing and repeated ids leave gaps). Both have the same length, and positions strictly increase. A query
  // whose lists are empty gets no hits.
  std::vector<uint64_t> ordinals;
  std::vector<uint32_t> positions;

  // kInline has documents in the collection's storage type, [inline_offsets.back(), dim] row-major. Document n owns
  // rows inline_offsets[n] .. inline_offsets[n + 1], of which there is at least one. Documents for an i8 collection
  // have gone through its rotation and have a scale each; for other types inline_scales is empty.
  std::vector<std::byte> inline_tokens;
  std::vector<int64_t> inline_offsets;
  std::vector<float> inline_scales;

  uint64_t num_documents(const store::Collection& collection) const;
  // Takes time linear in the ordinals. Ordinals beyond the collection count as 0 tokens; scoring refuses them.
  uint64_t num_tokens(const store::Collection& collection) const;
};

// Holds one query of a request.
struct JobQuery {
  std::vector<std::byte> tokens;  // [num_tokens, dim] in QueryType(the collection's storage type)
  std::vector<float> weights;     // [num_tokens], or empty: all 1
  int32_t num_tokens = 0;
  int32_t top_k = 0;
  bool want_alignments = false;
  std::shared_ptr<const CandidateSet> candidates;  // may be shared by the queries of a request
};

struct Hit {
  float score = 0;
  uint64_t position = 0;  // in the list as the client sent it; for the whole collection the document's ordinal
  uint64_t ordinal = 0;   // collection ordinal; for inline documents equal to position
};

struct JobQueryResult {
  std::vector<Hit> hits;            // in rank order
  std::vector<TokenMatch> matches;  // [hits, num_tokens] when alignments were asked for, else empty
  uint64_t num_unavailable = 0;     // candidates that were not scored: their device is lost
};

struct JobResult {
  std::vector<JobQueryResult> queries;
  // What answered, where that may be a later snapshot than the job's own; else null.
  std::shared_ptr<const store::Collection> collection;
  absl::Duration queue_time;
  absl::Duration copy_time;
  absl::Duration kernel_time;
};

enum class Priority : uint8_t { kLow, kNormal, kHigh };

// Holds one request on its way through the server. Whoever holds the unique_ptr owns it; `done` is called exactly once
// by the scheduler that accepted it, from one of its threads, and must not block.
struct Job {
  std::shared_ptr<const store::Collection> collection;
  std::vector<JobQuery> queries;
  // Scores the job on its own snapshot of a live collection. A job that is not pinned may have its scans of the whole
  // collection made on a later one of the same generation (JobResult::collection). For jobs that list candidates as
  // well, so that all of their answers are of one snapshot.
  bool pinned = false;
  Priority priority = Priority::kNormal;
  bool fail_on_unavailable = false;  // UNAVAILABLE rather than an answer without candidates whose device is lost
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow()
  // Waits for longer than max_queue_time too. For jobs of the server itself, which nobody would send again.
  bool ignores_max_queue_time = false;
  // The client, between which jobs of one priority are served fairly. 0 is a client like any other.
  uint64_t client = 0;
  // The caller may set it at any time from any thread: then the job leaves the queue unscored, with CANCELLED.
  std::shared_ptr<std::atomic<bool>> cancelled;
  absl::AnyInvocable<void(absl::StatusOr<JobResult>)> done;

  // This is the cost in token pairs: query tokens x candidate tokens, summed over the queries. It is filled by
  // ComputeWork, or by a caller that has the sum already.
  uint64_t work = 0;
  // The host memory that stays held as long as the job: its own (JobBytes), and what its owner keeps for the answer.
  // Filled by the caller.
  uint64_t bytes = 0;
};

// Returns the memory of the queries and of each distinct CandidateSet.
uint64_t JobBytes(const Job& job);

// Returns whether two jobs may be scored in one batch: on the same documents.
bool MayShareBatch(const Job& a, const Job& b);

// Sets job->work; saturates at the largest number. Walks the candidates of each distinct CandidateSet once.
void ComputeWork(Job* job);

}  // namespace maxsim::engine
