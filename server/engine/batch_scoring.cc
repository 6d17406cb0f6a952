#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "server/engine/batch.h"

namespace maxsim::engine {
namespace {

bool RanksBefore(const Hit& a, const Hit& b) {
  return a.score != b.score ? a.score > b.score : a.position < b.position;
}

int64_t Length(const DocumentsView& documents, uint32_t ordinal) {
  return documents.offsets[ordinal + size_t{1}] - documents.offsets[ordinal];
}

// The end of the longest range of documents from `begin` on, `last` at most, that has no more than `max_tokens` tokens;
// one document at least.
int64_t EndOfRange(const DocumentsView& documents, int64_t begin, int64_t last, int64_t max_tokens) {
  const int64_t* first = documents.offsets + begin;
  const int64_t* end = documents.offsets + last;
  // The first offset beyond what fits; the documents before it are whole.
  const int64_t* beyond = std::upper_bound(
      first + 1, end + 1, max_tokens, [first](int64_t tokens, int64_t offset) { return tokens < offset - *first; });
  return std::max<int64_t>(beyond - documents.offsets - 1, begin + 1);
}

bool SameCandidates(const Task& a, const Task& b) {
  return a.ordinals == b.ordinals && a.num_candidates == b.num_candidates && a.base == b.base;
}

}  // namespace

Query Lane::Batch::ToQuery(const QueryRun& run) const {
  Query query;
  query.tokens = run.query->tokens.data();
  query.weights = run.query->weights.empty() ? nullptr : run.query->weights.data();
  query.num_tokens = run.query->num_tokens;
  query.top_k = run.query->top_k;
  return query;
}

void Lane::Batch::ScoreCollection() {
  SplitLists();
  for (size_t part_idx = 0; part_idx < collection_.parts().size() && AnyAlive(); ++part_idx) ScorePart(part_idx);
  for (const QueryGroup& group : scratch_.groups) {
    if (group.set->kind == CandidateSet::Kind::kInline) continue;
    for (QueryRun& run : RunsOf(group)) {
      if (!Alive(run)) continue;
      FinishHits(&run);
      if (WantsAlignments(run)) AlignCollectionHits(&run);
    }
  }
}

void Lane::Batch::SplitLists() {
  size_t num_splits = 0;
  for (QueryGroup& group : scratch_.groups) {
    if (group.set->kind != CandidateSet::Kind::kOrdinals) continue;
    group.split = num_splits++;
    if (scratch_.splits.size() < num_splits) scratch_.splits.resize(num_splits);
    const absl::Status status = scratch_.splits[group.split].Assign(collection_, *group.set);
    if (status.ok()) continue;
    for (const QueryRun& run : RunsOf(group)) Fail(run.job_idx, status);
  }
}

// Whole-collection queries stand first and lists by group, so that queries which share documents meet in one call.
void Lane::Batch::ScorePart(size_t part_idx) {
  const store::Collection::Part& part = collection_.parts()[part_idx];
  const int64_t num_documents = part.num_documents();
  if (num_documents == 0) return;
  scratch_.tasks.clear();
  for (const QueryGroup& group : scratch_.groups) {
    if (group.set->kind != CandidateSet::Kind::kWholeCollection) continue;
    if (num_documents > limits_.max_candidates || part.num_tokens() > MaxTokens(LongestQuery(group))) {
      ScoreWholePartInRanges(group, part);
    } else {
      AddWholePart(group, part);
    }
  }
  for (const QueryGroup& group : scratch_.groups) {
    if (group.set->kind == CandidateSet::Kind::kOrdinals) AddListedCandidates(group, part_idx);
  }
  RunTasks(*part.copies.front().documents);
}

int64_t Lane::Batch::LongestQuery(const QueryGroup& group) {
  int64_t longest = 1;
  for (const QueryRun& run : RunsOf(group)) longest = std::max<int64_t>(longest, run.query->num_tokens);
  return longest;
}

// How many document tokens one call may score against so many query tokens.
int64_t Lane::Batch::MaxTokens(int64_t query_tokens) const {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min(max_call_work_ / static_cast<uint64_t>(query_tokens), kMost));
}

void Lane::Batch::AddWholePart(const QueryGroup& group, const store::Collection::Part& part) {
  for (QueryRun& run : RunsOf(group)) {
    scratch_.tasks.push_back({.run = &run,
                              .num_candidates = part.num_documents(),
                              .base = part.first_ordinal,
                              .num_tokens = static_cast<uint64_t>(part.num_tokens())});
  }
}

// A part of more documents or tokens than one call may score: in ranges so short that the queries still share their
// documents.
void Lane::Batch::ScoreWholePartInRanges(const QueryGroup& group, const store::Collection::Part& part) {
  const auto num_sharing = std::min<int64_t>(static_cast<int64_t>(group.num_runs), limits_.max_queries);
  const int64_t length = std::max<int64_t>(limits_.max_candidates / num_sharing, 1);
  const int64_t shared_tokens = std::min(num_sharing * LongestQuery(group), limits_.max_query_tokens);
  const int64_t max_tokens = MaxTokens(shared_tokens);
  const DocumentsView& view = part.shard->documents();
  int64_t end = 0;
  for (int64_t begin = 0; begin < view.num_documents && AnyAlive(); begin = end) {
    end = EndOfRange(view, begin, std::min(begin + length, view.num_documents), max_tokens);
    scratch_.ordinals.resize(static_cast<size_t>(end - begin));
    std::iota(scratch_.ordinals.begin(), scratch_.ordinals.end(), static_cast<uint32_t>(begin));
    scratch_.tasks.clear();
    for (QueryRun& run : RunsOf(group)) {
      scratch_.tasks.push_back({.run = &run,
                                .ordinals = scratch_.ordinals.data(),
                                .num_candidates = end - begin,
                                .base = part.first_ordinal + static_cast<uint64_t>(begin),
                                .num_tokens = static_cast<uint64_t>(view.offsets[end] - view.offsets[begin])});
    }
    RunTasks(*part.copies.front().documents);
  }
  scratch_.tasks.clear();
}

void Lane::Batch::AddListedCandidates(const QueryGroup& group, size_t part_idx) {
  const bool wanted =
      std::any_of(RunsOf(group).begin(), RunsOf(group).end(), [this](const QueryRun& run) { return Alive(run); });
  if (!wanted) return;  // and the split may be of an earlier batch: its list was refused
  const CandidateSplit& split = scratch_.splits[group.split];
  const DocumentsView& view = collection_.parts()[part_idx].shard->documents();
  const absl::Span<const uint32_t> ordinals = split.ordinals(part_idx);
  const absl::Span<const uint32_t> indices = split.indices(part_idx);
  const auto max_piece = static_cast<size_t>(limits_.max_candidates);
  const int64_t max_tokens = MaxTokens(LongestQuery(group));
  size_t end = 0;
  for (size_t begin = 0; begin < ordinals.size(); begin = end) {
    int64_t num_tokens = Length(view, ordinals[begin]);
    for (end = begin + 1; end < ordinals.size() && end - begin < max_piece; ++end) {
      const int64_t length = Length(view, ordinals[end]);
      if (length > max_tokens - num_tokens) break;
      num_tokens += length;
    }
    for (QueryRun& run : RunsOf(group)) {
      scratch_.tasks.push_back({.run = &run,
                                .ordinals = ordinals.data() + begin,
                                .num_candidates = static_cast<int64_t>(end - begin),
                                .indices = indices.data() + begin,
                                .num_tokens = static_cast<uint64_t>(num_tokens)});
    }
  }
}

// Cuts the tasks, in order, into calls within the executor's limits and max_call_work. Each task alone is within them,
// or is a single document.
void Lane::Batch::RunTasks(const Documents& documents) {
  size_t next = 0;
  while (next < scratch_.tasks.size()) {
    DropCancelledAndExpired();
    scratch_.wave.clear();
    int64_t query_tokens = 0;
    int64_t candidates = 0;
    uint64_t work = 0;
    for (; next < scratch_.tasks.size(); ++next) {
      const Task& task = scratch_.tasks[next];
      if (!Alive(*task.run)) continue;
      const uint64_t task_work = task.num_tokens * static_cast<uint64_t>(task.run->query->num_tokens);
      const bool fits = static_cast<int64_t>(scratch_.wave.size()) < limits_.max_queries &&
                        query_tokens + task.run->query->num_tokens <= limits_.max_query_tokens &&
                        candidates + task.num_candidates <= limits_.max_candidates && work <= max_call_work_ &&
                        task_work <= max_call_work_ - work;
      if (!fits && !scratch_.wave.empty()) break;
      work += task_work;
      query_tokens += task.run->query->num_tokens;
      candidates += task.num_candidates;
      scratch_.wave.push_back(task);
    }
    if (!scratch_.wave.empty()) RunWave(documents, scratch_.wave);
  }
}

void Lane::Batch::RunWave(const Documents& documents, absl::Span<const Task> wave) {
  scratch_.queries.clear();
  for (const Task& task : wave) {
    Query& query = scratch_.queries.emplace_back(ToQuery(*task.run));
    query.ordinals = task.ordinals;
    query.num_candidates = task.num_candidates;
  }
  if (scratch_.results.size() < wave.size()) scratch_.results.resize(wave.size());
  const auto results = absl::MakeSpan(scratch_.results).first(wave.size());
  CallTimings timings;
  const absl::Status status = executor_.TopK(documents, scratch_.queries, results, &timings);
  if (!status.ok()) {
    if (wave.size() == 1 || absl::IsUnavailable(status)) {
      FailCall(wave.front().run->job_idx, status);
      return;
    }
    // One of them is to blame, and only it shall fail.
    for (const Task& task : wave) {
      if (Alive(*task.run)) RunWave(documents, absl::MakeConstSpan(&task, 1));
    }
    return;
  }
  stats_.timings.copy_seconds += timings.copy_seconds;
  stats_.timings.kernel_seconds += timings.kernel_seconds;
  for (size_t idx = 0; idx < wave.size(); ++idx) {
    const Task& task = wave[idx];
    stats_.token_pairs += task.num_tokens * static_cast<uint64_t>(task.run->query->num_tokens);
    if (idx == 0 || !SameCandidates(task, wave[idx - 1])) stats_.document_tokens += task.num_tokens;
    Absorb(task, results[idx]);
  }
}

void Lane::Batch::Absorb(const Task& task, absl::Span<const Scored> scored) {
  if (scored.empty()) return;
  QueryRun& run = *task.run;
  const auto top_k = static_cast<size_t>(run.query->top_k);
  std::vector<Hit>& hits = run.result.hits;
  hits.reserve(hits.size() + scored.size());
  for (const Scored& one : scored) {
    if (task.indices == nullptr) {
      const uint64_t ordinal = task.base + one.position;
      hits.push_back({one.score, ordinal, ordinal});
    } else {
      const uint32_t idx = task.indices[one.position];
      hits.push_back({one.score, run.query->candidates->positions[idx], run.query->candidates->ordinals[idx]});
    }
  }
  ++run.num_lists;
  // Many parts of a long list each: keep no more than a few times top_k.
  if (hits.size() > 4 * top_k) {
    std::nth_element(hits.begin(), hits.begin() + static_cast<ptrdiff_t>(top_k), hits.end(), RanksBefore);
    hits.resize(top_k);
  }
}

void Lane::Batch::FinishHits(QueryRun* run) const {
  std::vector<Hit>& hits = run->result.hits;
  const size_t kept = std::min(hits.size(), static_cast<size_t>(run->query->top_k));
  if (run->num_lists > 1) {
    std::partial_sort(hits.begin(), hits.begin() + static_cast<ptrdiff_t>(kept), hits.end(), RanksBefore);
  }
  hits.resize(kept);
}

DocumentsView Lane::Batch::InlineView(const CandidateSet& set) const {
  return {.type = collection_.storage(),
          .dim = collection_.dim(),
          .num_documents = static_cast<int64_t>(set.inline_offsets.size()) - 1,
          .tokens = set.inline_tokens.data(),
          .offsets = set.inline_offsets.data(),
          .scales = set.inline_scales.empty() ? nullptr : set.inline_scales.data(),
          .rotation_seed = collection_.manifest().rotation_seed};
}

absl::Status Lane::Batch::CheckInline(const CandidateSet& set) const {
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

int64_t Lane::Batch::EndOfStage(const QueryGroup& group, int64_t begin) {
  const DocumentsView view = InlineView(*group.set);
  const int64_t max_tokens =
      std::min(limits_.max_staged_bytes / StagedBytes(view.type, view.dim, 1), MaxTokens(LongestQuery(group)));
  const int64_t max_documents = std::min(limits_.max_staged_documents, limits_.max_candidates);
  const int64_t last = std::min(view.num_documents, begin + std::min(max_documents, view.num_documents));
  return EndOfRange(view, begin, last, max_tokens);
}

const Documents* Lane::Batch::Stage(const QueryGroup& group, int64_t begin, int64_t end) {
  DocumentsView view = InlineView(*group.set);
  view.num_documents = end - begin;
  if (begin != 0) {
    const int64_t first = view.offsets[begin];
    scratch_.offsets.assign(view.offsets + begin, view.offsets + end + 1);
    for (int64_t& offset : scratch_.offsets) offset -= first;
    view.offsets = scratch_.offsets.data();
    if (view.scales != nullptr) view.scales += begin;
    const size_t row_bytes = static_cast<size_t>(view.dim) * SizeOf(view.type);
    const std::byte* const rows = group.set->inline_tokens.data() + static_cast<size_t>(first) * row_bytes;
    view.tokens = rows;
    // i8 rows may begin anywhere; a backend takes them from an even address.
    if (reinterpret_cast<uintptr_t>(rows) % 2 != 0) {
      scratch_.tokens.assign(rows, rows + static_cast<size_t>(scratch_.offsets.back()) * row_bytes);
      view.tokens = scratch_.tokens.data();
    }
  }
  const absl::StatusOr<const Documents*> staged = executor_.Stage(view);
  if (staged.ok()) return *staged;
  for (const QueryRun& run : RunsOf(group)) FailCall(run.job_idx, staged.status());
  return nullptr;
}

void Lane::Batch::ScoreInline(const QueryGroup& group) {
  if (const absl::Status status = CheckInline(*group.set); !status.ok()) {
    for (const QueryRun& run : RunsOf(group)) Fail(run.job_idx, status);
    return;
  }
  const DocumentsView view = InlineView(*group.set);
  const Documents* staged = nullptr;
  bool whole = false;
  for (int64_t begin = 0; begin < view.num_documents && AnyAlive();) {
    const int64_t end = EndOfStage(group, begin);
    staged = Stage(group, begin, end);
    if (staged == nullptr) return;
    whole = begin == 0 && end == view.num_documents;
    scratch_.tasks.clear();
    for (QueryRun& run : RunsOf(group)) {
      scratch_.tasks.push_back({.run = &run,
                                .num_candidates = end - begin,
                                .base = static_cast<uint64_t>(begin),
                                .num_tokens = static_cast<uint64_t>(view.offsets[end] - view.offsets[begin])});
    }
    RunTasks(*staged);
    begin = end;
  }
  bool align = false;
  for (QueryRun& run : RunsOf(group)) {
    if (!Alive(run)) continue;
    FinishHits(&run);
    align = align || WantsAlignments(run);
  }
  // Documents that took several stagings are staged once more; a single staging is still there.
  for (int64_t begin = 0; align && begin < view.num_documents && AnyAlive();) {
    const int64_t end = EndOfStage(group, begin);
    if (!whole) staged = Stage(group, begin, end);
    if (staged == nullptr) return;
    AlignInlineHits(group, *staged, begin, end);
    begin = end;
  }
}

}  // namespace maxsim::engine
