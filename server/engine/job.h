// Rerank requests as they are queued: checked, with ids resolved to ordinals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/maxsim.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/matching_documents.h"

namespace maxsim::engine {

// The documents that a query is scored against.
struct CandidateSet {
  enum class Kind {
    kWholeCollection,
    kMatching,  // the documents of the collection that match a filter
    kOrdinals,
    kInline,
  };
  Kind kind = Kind::kWholeCollection;

  // For kMatching: the matching documents, in the job's own snapshot.
  std::shared_ptr<const store::MatchingDocuments> matching;

  // For kOrdinals: distinct collection ordinals (numbers of documents), and for each its index in the list that the
  // client sent. Both vectors have the same length. `positions` strictly increase, with gaps for missing and repeated
  // ids. A query with an empty list gets no hits.
  std::vector<uint64_t> ordinals;
  std::vector<uint32_t> positions;

  // For kInline: documents in the collection's storage type, [inline_offsets.back(), dim] row-major. Document n has the
  // rows from inline_offsets[n] up to, but without, inline_offsets[n + 1], at least one. Documents for an i8 collection
  // have been multiplied by its rotation matrix and have a scale each; for other types inline_scales is empty.
  std::vector<std::byte> inline_tokens;
  std::vector<int64_t> inline_offsets;
  std::vector<float> inline_scales;

  // Returns whether a hit's position is its document's ordinal. True for kinds without a list, in which candidates have
  // the order of the collection.
  bool has_ordinal_positions() const { return kind == Kind::kWholeCollection || kind == Kind::kMatching; }
  uint64_t num_documents(const store::Collection& collection) const;
  // Linear in the ordinals. One beyond the collection counts as 0 tokens.
  uint64_t num_tokens(const store::Collection& collection) const;
};

// How a query is answered on a collection with codes: the codes are scanned to choose which candidates are scored
// exactly.
struct RefinementOptions {
  // The number of candidates that are scored: those that the scan ranks highest. If a query has no more candidates, all
  // are scored without a scan. 0 means no scan. Otherwise the value is top_k .. kMaxScanResults.
  int32_t documents = 0;
  // If true, and if that is necessary to prove that no other candidate is among the best top_k, scores more candidates,
  // up to `budget` (`documents` .. kMaxScanResults) in all.
  bool require_proof = false;
  int32_t budget = 0;
};

// One query of a request.
struct JobQuery {
  std::vector<std::byte> tokens;  // [num_tokens, dim] in QueryType(the collection's storage type)
  std::vector<float> weights;     // [num_tokens], or empty: all 1
  int32_t num_tokens = 0;
  int32_t top_k = 0;
  bool want_alignments = false;
  RefinementOptions refinement;
  std::shared_ptr<const CandidateSet> candidates;  // may be shared by the queries of a request
};

struct Hit {
  float score = 0;
  // Index in the list that the client sent. For kWholeCollection and kMatching: the document's ordinal (number in the
  // collection).
  uint64_t position = 0;
  uint64_t ordinal = 0;  // collection ordinal; for inline documents equal to position
};

// How a scan of codes chose the documents, and whether the answer is exact.
struct Refinement {
  int planes = 0;              // number of planes that were scanned: 1, 2 or 4
  uint64_t num_documents = 0;  // documents that were chosen and scored
  // True if it is proven that no candidate left out is among the best top_k. Candidates on a lost device are not
  // considered.
  bool is_proven = false;
  // The largest score that the scan gave to a candidate that was left out; nullopt if none was left out. It is an upper
  // bound of this candidate's exact score if outside_is_bound, else an estimate.
  std::optional<float> outside;
  bool outside_is_bound = false;
};

struct JobQueryResult {
  std::vector<Hit> hits;                      // in rank order
  std::vector<TokenMatch> matches;            // [hits, num_tokens] when alignments were asked for, else empty
  uint64_t num_unavailable = 0;               // candidates that were not scored: their device is lost
  std::optional<Refinement> refinement = {};  // set if candidates were scanned
};

struct JobResult {
  std::vector<JobQueryResult> queries;
  // The snapshot of whole-collection queries; null if it is the job's own.
  std::shared_ptr<const store::Collection> collection;
  absl::Duration queue_time;
  absl::Duration copy_time;
  absl::Duration kernel_time;
};

enum class Priority : uint8_t { kLow, kNormal, kHigh };

// One request on its way through the server, owned by the holder of the unique_ptr. The scheduler that accepted the job
// calls `done` exactly once, on one of the threads that scheduler.h names; `done` must not block.
struct Job {
  std::shared_ptr<const store::Collection> collection;
  std::vector<JobQuery> queries;
  // If true, the whole job is scored on its own snapshot of a live collection. If false, its whole-collection queries
  // may be scored on a later snapshot of the same generation (see JobResult::collection). Set it for jobs that also
  // list candidates or matching documents, so that all answers of the job come from one snapshot.
  bool pinned = false;
  Priority priority = Priority::kNormal;
  bool fail_on_unavailable = false;  // UNAVAILABLE rather than an answer without candidates whose device is lost
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow()
  // If true, the job may wait for longer than max_queue_time. For the server's own jobs, which nothing would send
  // again.
  bool ignores_max_queue_time = false;
  // Identifies the client that sent the job. Jobs of one priority are served fairly between clients. The value 0 is not
  // special.
  uint64_t client = 0;
  // Any thread may set this to true. The job then ends with CANCELLED.
  std::shared_ptr<std::atomic<bool>> cancelled;
  absl::AnyInvocable<void(absl::StatusOr<JobResult>)> done;

  // The cost in token pairs: query tokens x candidate tokens, summed over the queries. Set by ComputeWork, or by a
  // caller that already knows the sum.
  uint64_t work = 0;
  // The host memory that is held as long as the job exists: the job's own (JobBytes), and what the caller keeps for the
  // answer. Set by the caller.
  uint64_t bytes = 0;
};

// Returns whether codes are scanned to choose which candidates are scored.
bool IsScanned(const JobQuery& query, const store::Collection& collection);

// Returns the value of JobResult::collection for a job whose batch was scored on `snapshot`: `snapshot` if the job has
// a whole-collection query and came with another snapshot, else null.
std::shared_ptr<const store::Collection> AnsweredBy(const Job& job,
                                                    const std::shared_ptr<const store::Collection>& snapshot);

// Returns the memory of the queries and of each distinct CandidateSet.
uint64_t JobBytes(const Job& job);

// Returns whether both jobs are on the same documents and may share a batch.
bool MayShareBatch(const Job& a, const Job& b);

// Returns whether all queries of the job score every document of a streamed collection, one that is copied to the GPU
// for each batch. A batch of such jobs copies each document once. With up to kStreamedQueryTokens query tokens it takes
// little longer than a single job.
bool StreamsWholeCollection(const Job& job);

// The maximum number of query tokens in a batch that streams a collection. On an H200 64 queries of 32 tokens take 1.4
// times as long as one: 1.20 s instead of 0.84 s over 46 GB of INT8 (docs/performance/code_scan.json).
inline constexpr uint64_t kStreamedQueryTokens = 2048;

// Sets job->work, which saturates. Counts each distinct CandidateSet once.
void ComputeWork(Job* job);

}  // namespace maxsim::engine
