#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/engine/device_scorer.h"
#include "server/engine/engine.h"

namespace maxsim::engine {

DocumentsView DeviceScorer::InlineView(const CandidateSet& set) const {
  const store::Collection& collection = queries_->collection();
  return {.type = StagedType(collection.storage()),
          .dim = collection.dim(),
          .num_documents = static_cast<int64_t>(set.inline_offsets.size()) - 1,
          .tokens = set.inline_tokens.data(),
          .offsets = set.inline_offsets.data(),
          .scales = set.inline_scales.empty() ? nullptr : set.inline_scales.data(),
          .rotation_seed = collection.manifest().rotation_seed};
}

absl::Status DeviceScorer::CheckInline(const CandidateSet& set) const {
  if (set.inline_offsets.empty()) return absl::InvalidArgumentError("inline documents have no offsets");
  const DocumentsView view = InlineView(set);
  if (absl::Status status = ValidateDocuments(view); !status.ok()) return status;
  const size_t row_bytes = static_cast<size_t>(view.dim) * SizeOf(view.type);
  if (set.inline_tokens.size() != static_cast<size_t>(view.num_tokens()) * row_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("inline documents are ", set.inline_tokens.size(), " bytes; ",
                                                   view.num_tokens(), " tokens of dimension ", view.dim, " are ",
                                                   static_cast<size_t>(view.num_tokens()) * row_bytes));
  }
  if (view.scales != nullptr && set.inline_scales.size() != static_cast<size_t>(view.num_documents)) {
    return absl::InvalidArgumentError(
        absl::StrCat("inline documents have ", set.inline_scales.size(), " scales for ", view.num_documents));
  }
  for (int64_t idx = 0; idx < view.num_documents; ++idx) {
    const int64_t bytes = StagedBytes(view.type, view.dim, view.offsets[idx + 1] - view.offsets[idx]);
    if (bytes > limits_.max_staged_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("inline document ", idx, " is ", bytes,
                                                       " bytes; the engine's max_staged_bytes is ",
                                                       limits_.max_staged_bytes));
    }
  }
  return absl::OkStatus();
}

int64_t DeviceScorer::EndOfStagedRange(const QueryGroup& group, int64_t begin) const {
  const DocumentsView view = InlineView(*group.set);
  const int64_t max_tokens = std::min(limits_.max_staged_bytes / StagedBytes(view.type, view.dim, 1),
                                      MaxTokens(queries_->LongestQuery(group)));
  const int64_t max_documents = std::min(limits_.max_staged_documents, limits_.max_candidates);
  const int64_t last = std::min(view.num_documents, begin + std::min(max_documents, view.num_documents));
  return EndOfRange(view, begin, last, max_tokens);
}

const Documents* DeviceScorer::Stage(const QueryGroup& group, int64_t begin, int64_t end) {
  DocumentsView view = InlineView(*group.set);
  view.num_documents = end - begin;
  if (begin != 0) {
    const int64_t first = view.offsets[begin];
    offsets_.assign(view.offsets + begin, view.offsets + end + 1);
    for (int64_t& offset : offsets_) offset -= first;
    view.offsets = offsets_.data();
    if (view.scales != nullptr) view.scales += begin;
    const size_t row_bytes = static_cast<size_t>(view.dim) * SizeOf(view.type);
    const std::byte* const rows = group.set->inline_tokens.data() + static_cast<size_t>(first) * row_bytes;
    view.tokens = rows;
    // i8 rows may begin at any address, but backends need an even one.
    if (reinterpret_cast<uintptr_t>(rows) % 2 != 0) {
      tokens_.assign(rows, rows + static_cast<size_t>(offsets_.back()) * row_bytes);
      view.tokens = tokens_.data();
    }
  }
  const absl::StatusOr<const Documents*> staged = executor_->Stage(view);
  if (staged.ok()) return *staged;
  for (const BatchQuery& query : queries_->QueriesOf(group)) FailCall(query.job_idx, staged.status());
  return nullptr;
}

void DeviceScorer::ScoreInline(const QueryGroup& group) {
  if (const absl::Status status = CheckInline(*group.set); !status.ok()) {
    for (const BatchQuery& query : queries_->QueriesOf(group)) queries_->Fail(query.job_idx, status);
    return;
  }
  const DocumentsView view = InlineView(*group.set);
  const Documents* staged = nullptr;
  bool whole = false;
  for (int64_t begin = 0; begin < view.num_documents && AnyAlive();) {
    const int64_t end = EndOfStagedRange(group, begin);
    staged = Stage(group, begin, end);
    if (staged == nullptr) return;
    whole = begin == 0 && end == view.num_documents;
    tasks_.clear();
    for (const BatchQuery& query : queries_->QueriesOf(group)) {
      tasks_.push_back({.query = &query,
                        .num_candidates = end - begin,
                        .base = static_cast<uint64_t>(begin),
                        .num_tokens = static_cast<uint64_t>(view.offsets[end] - view.offsets[begin])});
    }
    RunTasks(*staged);
    begin = end;
  }
  bool align = false;
  for (const BatchQuery& query : queries_->QueriesOf(group)) {
    if (!Alive(query)) continue;
    DeviceHits& found = found_[query.idx];
    FinishHits(query.job_query->top_k, found.num_lists, &found.hits);
    found.num_lists = 1;
    if (!query.job_query->want_alignments) continue;
    found.matches.resize(found.hits.size() * static_cast<size_t>(query.job_query->num_tokens));
    align = align || !found.hits.empty();
  }
  // Documents that needed several stagings (copies to the device) are staged again, range by range. If they needed one,
  // they are still staged.
  for (int64_t begin = 0; align && begin < view.num_documents && AnyAlive();) {
    const int64_t end = EndOfStagedRange(group, begin);
    if (!whole) staged = Stage(group, begin, end);
    if (staged == nullptr) return;
    AlignInlineHits(group, *staged, begin, end);
    begin = end;
  }
}

void DeviceScorer::AlignInlineHits(const QueryGroup& group, const Documents& documents, int64_t begin, int64_t end) {
  for (const BatchQuery& query : queries_->QueriesOf(group)) {
    if (!Alive(query) || !query.job_query->want_alignments) continue;
    DeviceHits& found = found_[query.idx];
    inline_hits_.clear();
    for (size_t idx = 0; idx < found.hits.size(); ++idx) {
      const auto document = static_cast<int64_t>(found.hits[idx].ordinal);
      if (document < begin || document >= end) continue;
      inline_hits_.push_back(
          {.query = &query,
           .ordinal = static_cast<uint32_t>(document - begin),
           .matches = found.matches.data() + idx * static_cast<size_t>(query.job_query->num_tokens)});
    }
    AlignHits(query, documents, inline_hits_);
  }
}

}  // namespace maxsim::engine
