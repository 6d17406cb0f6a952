#include "server/engine/device_scorer.h"

#include <algorithm>

#include "base/monotonic_clock.h"
#include "kernels/rank_order.h"

namespace maxsim::engine {

int64_t EndOfRange(const DocumentsView& documents, int64_t begin, int64_t last, int64_t max_tokens) {
  const int64_t* first = documents.offsets + begin;
  const int64_t* end = documents.offsets + last;
  // `beyond` is the first offset past max_tokens. Documents before it fit.
  const int64_t* beyond = std::upper_bound(
      first + 1, end + 1, max_tokens, [first](int64_t tokens, int64_t offset) { return tokens < offset - *first; });
  return std::max<int64_t>(beyond - documents.offsets - 1, begin + 1);
}

int64_t EndOfListedRange(const DocumentsView& documents, const std::vector<uint32_t>* ordinals, int64_t begin,
                         int64_t last, int64_t max_tokens, uint64_t* num_tokens) {
  if (ordinals == nullptr) {
    const int64_t end = EndOfRange(documents, begin, last, max_tokens);
    *num_tokens = static_cast<uint64_t>(documents.offsets[end] - documents.offsets[begin]);
    return end;
  }
  const auto length = [&](int64_t idx) {
    const uint32_t ordinal = (*ordinals)[static_cast<size_t>(idx)];
    return documents.offsets[ordinal + 1] - documents.offsets[ordinal];
  };
  int64_t tokens = length(begin);
  int64_t end = begin + 1;
  for (; end < last && length(end) <= max_tokens - tokens; ++end) tokens += length(end);
  *num_tokens = static_cast<uint64_t>(tokens);
  return end;
}

void FinishHits(int32_t top_k, int num_lists, std::vector<Hit>* hits) {
  const size_t kept = std::min(hits->size(), static_cast<size_t>(top_k));
  if (num_lists > 1) {
    std::partial_sort(hits->begin(), hits->begin() + static_cast<ptrdiff_t>(kept), hits->end(), RanksBefore);
  }
  hits->resize(kept);
}

void DeviceScorer::BeginBatch(BatchQueries* queries) {
  queries_ = queries;
  if (found_.size() < queries->queries().size()) found_.resize(queries->queries().size());
  Reset();
}

void DeviceScorer::Reset() {
  lost_ = absl::OkStatus();
  parts_.clear();
  inline_groups_.clear();
  hits_to_align_.clear();
  work_ = {};
  for (size_t idx = 0; idx < queries_->queries().size(); ++idx) {
    found_[idx].hits.clear();
    found_[idx].num_lists = 0;
    found_[idx].matches.clear();
  }
}

void DeviceScorer::FailCall(size_t job_idx, const absl::Status& status) {
  if (absl::IsUnavailable(status)) {
    lost_ = status;
  } else {
    queries_->Fail(job_idx, status);
  }
}

Query DeviceScorer::ToQuery(const BatchQuery& query) {
  const JobQuery& job_query = *query.job_query;
  Query result;
  result.tokens = job_query.tokens.data();
  result.weights = job_query.weights.empty() ? nullptr : job_query.weights.data();
  result.num_tokens = job_query.num_tokens;
  result.top_k = job_query.top_k;
  return result;
}

void DeviceScorer::Score() {
  for (size_t idx = 0; idx < parts_.size() && AnyAlive(); ++idx) ScorePart(parts_[idx]);
  for (size_t idx = 0; idx < inline_groups_.size() && AnyAlive(); ++idx) ScoreInline(*inline_groups_[idx]);
  parts_.clear();
  inline_groups_.clear();
}

void DeviceScorer::Align() {
  // Each call aligns the hits of one query in one part.
  std::stable_sort(hits_to_align_.begin(), hits_to_align_.end(), [](const HitToAlign& a, const HitToAlign& b) {
    return a.query->idx != b.query->idx ? a.query->idx < b.query->idx : a.part < b.part;
  });
  const absl::Span<const HitToAlign> all = hits_to_align_;
  for (size_t begin = 0, end = 0; begin < all.size() && AnyAlive(); begin = end) {
    const HitToAlign& first = all[begin];
    for (end = begin; end < all.size() && all[end].query == first.query && all[end].part == first.part;) ++end;
    if (!Alive(*first.query)) continue;
    AlignHits(*first.query, *queries_->collection().part(first.part).DocumentsOn(device_),
              all.subspan(begin, end - begin));
  }
  hits_to_align_.clear();
}

// Computes the alignments of hits of one query, whose documents are in `documents`, and copies the matches of each hit
// to HitToAlign::matches.
void DeviceScorer::AlignHits(const BatchQuery& query, const Documents& documents, absl::Span<const HitToAlign> hits) {
  const auto num_tokens = static_cast<size_t>(query.job_query->num_tokens);
  const auto max_hits = static_cast<size_t>(limits_.max_candidates);
  for (; !hits.empty(); hits.remove_prefix(std::min(max_hits, hits.size()))) {
    const auto some = hits.first(std::min(max_hits, hits.size()));
    queries_->DropCancelledAndExpired();
    if (!Alive(query)) return;
    ordinals_.clear();
    for (const HitToAlign& hit : some) ordinals_.push_back(hit.ordinal);
    matches_.resize(some.size() * num_tokens);
    const absl::Time start = MonotonicNow();
    const absl::Status status = executor_->Align(documents, ToQuery(query), ordinals_, absl::MakeSpan(matches_));
    if (!status.ok()) {
      FailCall(query.job_idx, status);
      return;
    }
    work_.timings.kernel_seconds += absl::ToDoubleSeconds(MonotonicNow() - start);
    for (size_t idx = 0; idx < some.size(); ++idx) {
      std::copy_n(matches_.begin() + static_cast<ptrdiff_t>(idx * num_tokens), num_tokens, some[idx].matches);
    }
  }
}

}  // namespace maxsim::engine
