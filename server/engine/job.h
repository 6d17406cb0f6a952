// Rerank requests as the server works on them: validated, with ids resolved and values converted.
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
    kMatching,  // of the whole collection, the documents that match a filter
    kOrdinals,
    kInline,
  };
  Kind kind = Kind::kWholeCollection;

  // kMatching has the documents, of the job's own snapshot.
  std::shared_ptr<const store::MatchingDocuments> matching;

  // kOrdinals has collection ordinals without repeats, and for each its index in the list that the client sent (so that
  // missing and repeated ids leave gaps). Both have the same length, and positions strictly increase. A query whose
  // lists are empty gets no hits.
  std::vector<uint64_t> ordinals;
  std::vector<uint32_t> positions;

  // kInline has documents in the collection's storage type, [inline_offsets.back(), dim] row-major. Document n owns the
  // rows from inline_offsets[n] up to, but without, inline_offsets[n + 1]: at least one. Documents for an i8 collection
  // have gone through its rotation and have a scale each; for other types inline_scales is empty.
  std::vector<std::byte> inline_tokens;
  std::vector<int64_t> inline_offsets;
  std::vector<float> inline_scales;

  // Returns whether positions of hits are ordinals, as the candidates are in the order of the collection.
  bool has_ordinal_positions() const { return kind == Kind::kWholeCollection || kind == Kind::kMatching; }
  uint64_t num_documents(const store::Collection& collection) const;
  // Takes time linear in the ordinals. Ordinals beyond the collection count as 0 tokens; scoring refuses them.
  uint64_t num_tokens(const store::Collection& collection) const;
};

// How a query is answered on a collection that has codes: a scan of them chooses the candidates that are scored.
struct RefinementOptions {
  // How many candidates are scored: those that the scan ranks highest. A query with no more candidates than this is not
  // scanned; all of its candidates are scored. 0: no query is scanned. Otherwise top_k .. kMaxScanResults.
  int32_t documents = 0;
  // Scores more candidates, at most `budget` (`documents` .. kMaxScanResults), if that is needed to prove that no other
  // candidate is among the best top_k.
  bool require_proof = false;
  int32_t budget = 0;
};

// Holds one query of a request.
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
  // Index in the list that the client sent; for the whole collection, or what matches of it, the document's ordinal.
  uint64_t position = 0;
  uint64_t ordinal = 0;  // collection ordinal; for inline documents equal to position
};

// Says how a scan of codes chose the documents of an answer, and whether the answer is proven to be exact.
struct Refinement {
  int planes = 0;              // that were scanned: 1, 2 or 4
  uint64_t num_documents = 0;  // that were chosen, and scored
  // No candidate that was left out can be among the best top_k, but for those that are unavailable.
  bool is_proven = false;
  // The largest score that the scan gave to a candidate that was left out: an upper bound of its score, or an estimate.
  // nullopt if no candidate was left out.
  std::optional<float> outside;
  bool outside_is_bound = false;
};

struct JobQueryResult {
  std::vector<Hit> hits;                      // in rank order
  std::vector<TokenMatch> matches;            // [hits, num_tokens] when alignments were asked for, else empty
  uint64_t num_unavailable = 0;               // candidates that were not scored: their device is lost
  std::optional<Refinement> refinement = {};  // where candidates were scanned
};

struct JobResult {
  std::vector<JobQueryResult> queries;
  // The snapshot that whole-collection queries were scored on, if it is not the job's own; else null.
  std::shared_ptr<const store::Collection> collection;
  absl::Duration queue_time;
  absl::Duration copy_time;
  absl::Duration kernel_time;
};

enum class Priority : uint8_t { kLow, kNormal, kHigh };

// One request on its way through the server. The holder of the unique_ptr owns it. The scheduler that accepted it calls
// `done` exactly once, on one of the threads that scheduler.h names; `done` must not block.
struct Job {
  std::shared_ptr<const store::Collection> collection;
  std::vector<JobQuery> queries;
  // Scores the job on its own snapshot of a live collection. Otherwise its scans of the whole collection may be made on
  // a later snapshot of the same generation (JobResult::collection). For jobs that also list candidates or matching
  // documents, so that all of their answers are of one snapshot.
  bool pinned = false;
  Priority priority = Priority::kNormal;
  bool fail_on_unavailable = false;  // UNAVAILABLE rather than an answer without candidates whose device is lost
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow()
  // Lets the job wait for longer than max_queue_time. For jobs of the server itself, which no client would send again.
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

// Returns whether the candidates of a query are scanned, and not all of them scored.
bool IsScanned(const JobQuery& query, const store::Collection& collection);

// Returns what JobResult::collection is for a job whose batch was scored on `snapshot`: that, if the job has a query
// over the whole collection and came with another snapshot; else null.
std::shared_ptr<const store::Collection> AnsweredBy(const Job& job,
                                                    const std::shared_ptr<const store::Collection>& snapshot);

// Returns the memory of the queries and of each distinct CandidateSet.
uint64_t JobBytes(const Job& job);

// Returns whether two jobs may be scored in one batch: on the same documents.
bool MayShareBatch(const Job& a, const Job& b);

// Returns whether the job does nothing but score every document of a streamed collection. A batch of such jobs copies
// each document to the GPU once, and takes little longer than one of them up to kStreamedQueryTokens.
bool StreamsWholeCollection(const Job& job);

// Query tokens of a batch that streams a collection. On an H200 64 queries of 32 tokens take 1.4 times as long as one:
// 1.20 s instead of 0.84 s over 46 GB of INT8 (docs/performance/code_scan.json).
inline constexpr uint64_t kStreamedQueryTokens = 2048;

// Sets job->work; saturates at the largest number. Walks the candidates of each distinct CandidateSet once.
void ComputeWork(Job* job);

}  // namespace maxsim::engine
