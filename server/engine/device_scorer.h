// Scores the share of a batch that is assigned to one device. Private to the lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/batch_queries.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// The hits of one query on one device.
struct DeviceHits {
  std::vector<Hit> hits;            // a few times top_k at most, in no order
  int num_lists = 0;                // executor's top-k lists that the hits come from; if several, the hits need sorting
  std::vector<TokenMatch> matches;  // [hits, tokens] for inline documents, when asked for; then hits are in rank order
};

// A hit that is to be aligned, and the row that its matches are written to.
struct HitToAlign {
  const BatchQuery* query = nullptr;
  uint32_t part = 0;
  uint32_t ordinal = 0;  // in the part
  TokenMatch* matches = nullptr;
};

// The work of the backend calls that succeeded.
struct DeviceWork {
  uint64_t token_pairs = 0;
  uint64_t document_tokens = 0;
  CallTimings timings;  // aligning counts as kernel time
};

// Scores on one device: an executor, and the memory that it needs. Call BeginBatch first; then add work (AddPart,
// AddInline, AddHitToAlign) and have it done (Score, Align), several times if necessary. One thread at a time may use a
// scorer; scorers of different devices may run in parallel.
class DeviceScorer {
 public:
  // `limits` must be the options that `executor` was created with.
  DeviceScorer(uint32_t device, std::unique_ptr<Executor> executor, const ExecutorOptions& limits,
               uint64_t max_call_work)
      : device_(device), executor_(std::move(executor)), limits_(limits), max_call_work_(max_call_work) {}

  uint32_t device() const { return device_; }

  // `queries` must stay valid until the next BeginBatch.
  void BeginBatch(BatchQueries* queries);
  // Drops the added work, the hits and the error about a lost device.
  void Reset();

  void AddPart(uint32_t part) { parts_.push_back(part); }
  void AddInline(const QueryGroup* group) { inline_groups_.push_back(group); }
  // Scores the parts and inline documents added since the last Score.
  void Score();
  void AddHitToAlign(const HitToAlign& hit) { hits_to_align_.push_back(hit); }
  void Align();
  bool has_work() const { return !parts_.empty() || !inline_groups_.empty() || !hits_to_align_.empty(); }

  // Returns OK, or UNAVAILABLE if the device was lost and the hits are void.
  const absl::Status& lost() const { return lost_; }
  // Returns the hits of a query. There may be none.
  const DeviceHits& found(const BatchQuery& query) const { return found_[query.idx]; }
  const DeviceWork& work() const { return work_; }

 private:
  // One query and some candidates of one set of documents. A call runs several.
  struct Task {
    const BatchQuery* query = nullptr;
    const uint32_t* ordinals = nullptr;  // null for all documents
    const uint64_t* mask = nullptr;      // Query::mask
    int64_t num_candidates = 0;
    // Says which document result position p means. If `indices` is set: candidate indices[p] of the query's list.
    // Otherwise, if `ordinals` is set: document base + ordinals[p]. Otherwise: document base + p.
    const uint32_t* indices = nullptr;
    uint64_t base = 0;
    uint64_t num_tokens = 0;  // of the candidates
    // May be null. The filter's list of tombstones names deleted documents that are scored all the same: the call asks
    // for one more result for each of them, and drops their results.
    const store::ScanFilter* filter = nullptr;
  };

  bool Alive(const BatchQuery& query) const { return lost_.ok() && queries_->Alive(query); }
  bool AnyAlive() const { return lost_.ok() && queries_->AnyAlive(); }
  // Marks the device as lost if `status` is UNAVAILABLE; else fails the job.
  void FailCall(size_t job_idx, const absl::Status& status);
  static bool SameCandidates(const Task& a, const Task& b) {
    return a.ordinals == b.ordinals && a.num_candidates == b.num_candidates && a.base == b.base;
  }
  static Query ToQuery(const BatchQuery& query);

  // device_scorer_parts.cc scores parts of the collection.
  void ScorePart(uint32_t part_idx);
  int64_t MaxTokens(int64_t query_tokens) const;
  int64_t NumSharing(const QueryGroup& group) const;
  int64_t SharedTokens(const QueryGroup& group, int64_t num_sharing) const;
  // Scores a part's documents without tombstone, or those that match a filter.
  void ScoreWholePart(const QueryGroup& group, uint32_t part_idx);
  // Returns how a part of a kMatching group is scored.
  static store::ScanFilter MatchingIn(const QueryGroup& group, uint32_t part_idx);
  void AddWholePart(const QueryGroup& group, const store::Part& part, const store::ScanFilter* filter);
  void ScoreWholePartInRanges(const QueryGroup& group, const store::Part& part, const store::ScanFilter* filter);
  void AddListedCandidates(const QueryGroup& group, uint32_t part_idx);
  void RunTasks(const Documents& documents);
  void RunCall(const Documents& documents, absl::Span<const Task> tasks);
  void AddHits(const Task& task, absl::Span<const Scored> scored);

  // device_scorer_inline.cc scores documents of the requests.
  void ScoreInline(const QueryGroup& group);
  DocumentsView InlineView(const CandidateSet& set) const;
  absl::Status CheckInline(const CandidateSet& set) const;
  int64_t EndOfStagedRange(const QueryGroup& group, int64_t begin) const;
  const Documents* Stage(const QueryGroup& group, int64_t begin, int64_t end);
  void AlignInlineHits(const QueryGroup& group, const Documents& documents, int64_t begin, int64_t end);

  // These functions align hits; they are in device_scorer.cc.
  void AlignHits(const BatchQuery& query, const Documents& documents, absl::Span<const HitToAlign> hits);

  const uint32_t device_;
  const std::unique_ptr<Executor> executor_;
  const ExecutorOptions limits_;
  const uint64_t max_call_work_;

  BatchQueries* queries_ = nullptr;
  std::vector<uint32_t> parts_;
  std::vector<const QueryGroup*> inline_groups_;
  std::vector<HitToAlign> hits_to_align_;
  absl::Status lost_;
  std::vector<DeviceHits> found_;  // at least one for each query of the batch
  DeviceWork work_;

  // Memory that is kept from call to call.
  std::vector<Task> tasks_;
  std::vector<Task> call_tasks_;
  std::vector<Query> call_queries_;
  std::vector<std::vector<Scored>> results_;
  std::vector<uint32_t> ordinals_;   // of a range, or of hits to be aligned
  std::vector<int64_t> offsets_;     // of a staged range
  std::vector<std::byte> tokens_;    // of a staged range that lies at an odd address
  std::vector<TokenMatch> matches_;  // of one Align call
  std::vector<HitToAlign> inline_hits_;
  std::deque<store::ScanFilter> filters_;  // of the part that is scored; tasks refer to them
};

// Returns the end of the longest range of listed documents (of all, if `ordinals` is null) that begins at `begin`, ends
// at `last` at the latest, and has at most `max_tokens` tokens or only one document. Sets `num_tokens` to the tokens of
// the range.
int64_t EndOfListedRange(const DocumentsView& documents, const std::vector<uint32_t>* ordinals, int64_t begin,
                         int64_t last, int64_t max_tokens, uint64_t* num_tokens);

// Returns the end of the longest range of documents that begins at `begin`, ends at `last` at the latest, and has at
// most `max_tokens` tokens or only one document.
int64_t EndOfRange(const DocumentsView& documents, int64_t begin, int64_t last, int64_t max_tokens);

// Keeps the best `top_k` hits in rank order. A single list must be in that order.
void FinishHits(int32_t top_k, int num_lists, std::vector<Hit>* hits);

}  // namespace maxsim::engine
