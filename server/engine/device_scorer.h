// What one device does for a batch. Private to the lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/engine/batch_queries.h"
#include "server/engine/job.h"

namespace maxsim::engine {

// The one sort order of hits: score descending, then position ascending.
inline bool RanksBefore(const Hit& a, const Hit& b) {
  return a.score != b.score ? a.score > b.score : a.position < b.position;
}

// What a device found for one query.
struct DeviceHits {
  std::vector<Hit> hits;            // some multiples of top_k at most, in no order
  int num_lists = 0;                // of the executor's that they came from; more than one need sorting
  std::vector<TokenMatch> matches;  // of inline documents, when they were asked for: [hits, tokens], hits in rank order
};

// A hit that is to be aligned, and where its matches go.
struct HitToAlign {
  const QueryRun* run = nullptr;
  uint32_t part = 0;
  uint32_t ordinal = 0;  // in the part
  TokenMatch* matches = nullptr;
};

// What calls that succeeded did.
struct DeviceWork {
  uint64_t token_pairs = 0;
  uint64_t document_tokens = 0;
  CallTimings timings;  // aligning counts as kernel time
};

// An executor and what its lane keeps for it. One batch after another: Begin, then work is added and done (Score,
// Align) as often as need be. All calls from one thread at a time; the runs of other devices may work beside it.
class DeviceRun {
 public:
  // `limits` are those that `executor` was made for.
  DeviceRun(uint32_t device, std::unique_ptr<Executor> executor, const ExecutorOptions& limits, uint64_t max_call_work)
      : device_(device), executor_(std::move(executor)), limits_(limits), max_call_work_(max_call_work) {}

  uint32_t device() const { return device_; }

  // `queries` is valid until the next Begin.
  void Begin(BatchQueries* queries);
  // Drops whatever it was given and found in this batch, its loss included.
  void Forget();

  void AddPart(uint32_t part) { parts_.push_back(part); }
  void AddInline(const QueryGroup* group) { inline_groups_.push_back(group); }
  // Scores what was added since it last did. Hits come beside those that are there.
  void Score();
  void AddHitToAlign(const HitToAlign& hit) { hits_to_align_.push_back(hit); }
  void Align();
  bool has_work() const { return !parts_.empty() || !inline_groups_.empty() || !hits_to_align_.empty(); }

  // OK, or the UNAVAILABLE with which the device was lost: nothing here is to be believed then.
  const absl::Status& lost() const { return lost_; }
  // By run; empty where it found nothing.
  const DeviceHits& found(const QueryRun& run) const { return found_[run.idx]; }
  const DeviceWork& work() const { return work_; }

 private:
  // One query against some candidates of one set of documents: what a backend call is made of.
  struct Task {
    const QueryRun* run = nullptr;
    const uint32_t* ordinals = nullptr;  // null: all documents
    int64_t num_candidates = 0;
    // Result position p is candidate indices[p] of the query's list; where that is null, the document base + p.
    const uint32_t* indices = nullptr;
    uint64_t base = 0;
    uint64_t num_tokens = 0;  // of the candidates
  };

  bool Alive(const QueryRun& run) const { return lost_.ok() && queries_->Alive(run); }
  bool AnyAlive() const { return lost_.ok() && queries_->AnyAlive(); }
  // A call failed on account of one query, or of the device.
  void FailCall(size_t job_idx, const absl::Status& status);
  static bool SameCandidates(const Task& a, const Task& b) {
    return a.ordinals == b.ordinals && a.num_candidates == b.num_candidates && a.base == b.base;
  }
  static Query ToQuery(const QueryRun& run);

  // device_scoring.cc: parts of the collection.
  void ScorePart(uint32_t part_idx);
  int64_t MaxTokens(int64_t query_tokens) const;
  void AddWholePart(const QueryGroup& group, const store::Collection::Part& part);
  void ScoreWholePartInRanges(const QueryGroup& group, const store::Collection::Part& part);
  void AddListedCandidates(const QueryGroup& group, uint32_t part_idx);
  void RunTasks(const Documents& documents);
  void RunWave(const Documents& documents, absl::Span<const Task> wave);
  void Absorb(const Task& task, absl::Span<const Scored> scored);

  // device_inline.cc: documents of the requests.
  void ScoreInline(const QueryGroup& group);
  DocumentsView InlineView(const CandidateSet& set) const;
  absl::Status CheckInline(const CandidateSet& set) const;
  int64_t EndOfStage(const QueryGroup& group, int64_t begin) const;
  const Documents* Stage(const QueryGroup& group, int64_t begin, int64_t end);
  void AlignInlineHits(const QueryGroup& group, const Documents& documents, int64_t begin, int64_t end);

  // device_run.cc.
  void AlignHits(const QueryRun& run, const Documents& documents, absl::Span<const HitToAlign> hits);

  const uint32_t device_;
  const std::unique_ptr<Executor> executor_;
  const ExecutorOptions limits_;
  const uint64_t max_call_work_;

  BatchQueries* queries_ = nullptr;
  std::vector<uint32_t> parts_;
  std::vector<const QueryGroup*> inline_groups_;
  std::vector<HitToAlign> hits_to_align_;
  absl::Status lost_;
  std::vector<DeviceHits> found_;  // [runs] at least
  DeviceWork work_;

  // Memory that is kept from call to call.
  std::vector<Task> tasks_;
  std::vector<Task> wave_;
  std::vector<Query> calls_;
  std::vector<std::vector<Scored>> results_;
  std::vector<uint32_t> ordinals_;   // of a range, or of hits to be aligned
  std::vector<int64_t> offsets_;     // of a staged range
  std::vector<std::byte> tokens_;    // of a staged range that lies at an odd address
  std::vector<TokenMatch> matches_;  // of one Align call
  std::vector<HitToAlign> inline_hits_;
};

// The end of the longest range of documents from `begin` on, `last` at most, that has no more than `max_tokens` tokens;
// one document at least.
int64_t EndOfRange(const DocumentsView& documents, int64_t begin, int64_t last, int64_t max_tokens);

// Leaves the best `top_k`, in rank order. Hits of one list are in order already.
void FinishHits(int32_t top_k, int num_lists, std::vector<Hit>* hits);

}  // namespace maxsim::engine
