#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/rank_order.h"
#include "server/engine/device_scorer.h"

namespace maxsim::engine {

// Scores queries of the whole collection or of a filter first. Then adds the tasks of lists, group by group, so that
// one call scores queries that share documents.
void DeviceScorer::ScorePart(uint32_t part_idx) {
  const store::Part& part = queries_->collection().part(part_idx);
  if (part.num_documents() == 0) return;
  tasks_.clear();
  filters_.clear();
  for (const QueryGroup& group : queries_->groups()) {
    if (group.set->has_ordinal_positions()) ScoreWholePart(group, part_idx);
  }
  for (const QueryGroup& group : queries_->groups()) {
    if (group.set->kind == CandidateSet::Kind::kOrdinals) AddListedCandidates(group, part_idx);
  }
  RunTasks(*part.DocumentsOn(device_));
}

void DeviceScorer::ScoreWholePart(const QueryGroup& group, uint32_t part_idx) {
  const store::Collection& collection = queries_->collection();
  const store::Part& part = collection.part(part_idx);
  const store::ScanFilter* filter = nullptr;
  int64_t num_documents = part.num_documents();
  auto num_tokens = static_cast<uint64_t>(part.num_tokens());
  if (group.set->kind == CandidateSet::Kind::kMatching) {
    if (queries_->NumCandidates(group, part_idx) == 0 || !queries_->AnyAlive(group)) return;
    filter = &filters_.emplace_back(MatchingIn(group, part_idx));
  } else if (collection.num_tombstones(part_idx) != 0) {
    int32_t top_k = 1;
    for (const BatchQuery& query : queries_->QueriesOf(group)) top_k = std::max(top_k, query.job_query->top_k);
    // The documents of the tombstones in filter->tombstones are scored all the same. The call asks for one extra result
    // for each of them, and then drops them from its results. A call may have at most kMaxTopK results, so at most
    // kMaxTopK - top_k tombstones are handled in this way. filter->ordinals leaves out the documents of all others.
    filter = &filters_.emplace_back(collection.scan_filter(part_idx, static_cast<size_t>(kMaxTopK - top_k)));
  }
  if (filter != nullptr) {
    num_tokens = filter->num_tokens;
    if (filter->ordinals != nullptr) num_documents = static_cast<int64_t>(filter->ordinals->size());
  }
  if (num_documents == 0) return;
  // If documents must be copied to the device, the part is cut into ranges, and all queries are scored against one
  // range after another. Otherwise each call of a few queries would copy the whole part again.
  const bool is_copied = collection.is_streamed() && part.tier != store::Residency::kGpu;
  const int64_t num_sharing = is_copied ? NumSharing(group) : 1;
  const int64_t max_tokens = MaxTokens(SharedTokens(group, num_sharing));
  if (num_documents > limits_.max_candidates / num_sharing || num_tokens > static_cast<uint64_t>(max_tokens)) {
    ScoreWholePartInRanges(group, part, filter);
  } else {
    AddWholePart(group, part, filter);
  }
}

// Returns how many of the group's queries one call may have.
int64_t DeviceScorer::NumSharing(const QueryGroup& group) const {
  return std::min<int64_t>(static_cast<int64_t>(group.num_queries), limits_.max_queries);
}

// Returns the query tokens of one call with `num_sharing` of the group's queries.
int64_t DeviceScorer::SharedTokens(const QueryGroup& group, int64_t num_sharing) const {
  const int64_t longest = queries_->LongestQuery(group);
  return std::max(longest, std::min(num_sharing * longest, limits_.max_query_tokens));
}

store::ScanFilter DeviceScorer::MatchingIn(const QueryGroup& group, uint32_t part_idx) {
  const store::MatchingDocuments& matching = *group.set->matching;
  return {.ordinals = matching.List(part_idx),
          .num_tokens = matching.num_tokens(part_idx),
          .tombstones = {},
          .mask = matching.mask(part_idx)};
}

// Returns the document tokens that a call may have with this many query tokens.
int64_t DeviceScorer::MaxTokens(int64_t query_tokens) const {
  constexpr auto kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min(max_call_work_ / static_cast<uint64_t>(query_tokens), kMaxInt64));
}

void DeviceScorer::AddWholePart(const QueryGroup& group, const store::Part& part, const store::ScanFilter* filter) {
  const std::vector<uint32_t>* const listed = filter == nullptr ? nullptr : filter->ordinals.get();
  for (const BatchQuery& query : queries_->QueriesOf(group)) {
    tasks_.push_back({.query = &query,
                      .ordinals = listed == nullptr ? nullptr : listed->data(),
                      .mask = filter == nullptr || filter->mask == nullptr ? nullptr : filter->mask->data(),
                      .num_candidates = listed == nullptr ? part.num_documents() : static_cast<int64_t>(listed->size()),
                      .base = part.first_ordinal,
                      .num_tokens = filter == nullptr ? static_cast<uint64_t>(part.num_tokens()) : filter->num_tokens,
                      .filter = filter});
  }
}

// Scores a part that has more documents or tokens than one call may score. Cuts it into ranges so short that one call
// can still score several queries.
void DeviceScorer::ScoreWholePartInRanges(const QueryGroup& group, const store::Part& part,
                                          const store::ScanFilter* filter) {
  const int64_t num_sharing = NumSharing(group);
  const int64_t length = std::max<int64_t>(limits_.max_candidates / num_sharing, 1);
  const int64_t max_tokens = MaxTokens(SharedTokens(group, num_sharing));
  const std::vector<uint32_t>* const listed = filter == nullptr ? nullptr : filter->ordinals.get();
  const int64_t count = listed == nullptr ? part.num_documents() : static_cast<int64_t>(listed->size());
  RunTasks(*part.DocumentsOn(device_));  // those of other groups, which wait in tasks_
  int64_t end = 0;
  for (int64_t begin = 0; begin < count && AnyAlive(); begin = end) {
    uint64_t num_tokens = 0;
    end = EndOfListedRange(part.view, listed, begin, std::min(begin + length, count), max_tokens, &num_tokens);
    if (listed == nullptr) {
      ordinals_.resize(static_cast<size_t>(end - begin));
      std::iota(ordinals_.begin(), ordinals_.end(), static_cast<uint32_t>(begin));
    } else {
      ordinals_.assign(listed->begin() + begin, listed->begin() + end);
    }
    tasks_.clear();
    for (const BatchQuery& query : queries_->QueriesOf(group)) {
      tasks_.push_back({.query = &query,
                        .ordinals = ordinals_.data(),
                        .num_candidates = end - begin,
                        .base = part.first_ordinal,
                        .num_tokens = num_tokens,
                        .filter = filter});
    }
    RunTasks(*part.DocumentsOn(device_));
  }
  tasks_.clear();
}

void DeviceScorer::AddListedCandidates(const QueryGroup& group, uint32_t part_idx) {
  if (!queries_->AnyAlive(group)) return;
  const CandidatesByPart& candidates = queries_->CandidatesOf(group);
  const store::Collection& collection = queries_->collection();
  const store::Part& part = collection.part(part_idx);
  const auto length = [&](uint32_t ordinal) { return collection.num_document_tokens(part.first_ordinal + ordinal); };
  const absl::Span<const uint32_t> ordinals = candidates.ordinals(part_idx);
  const absl::Span<const uint32_t> indices = candidates.indices(part_idx);
  const auto max_candidates = static_cast<size_t>(limits_.max_candidates);
  const int64_t max_tokens = MaxTokens(queries_->LongestQuery(group));
  // All candidates nearly always fit into one call.
  const int64_t total =
      ordinals.size() <= max_candidates ? static_cast<int64_t>(collection.num_tokens(part, ordinals)) : 0;
  const bool at_once = ordinals.size() <= max_candidates && total <= max_tokens;
  size_t end = 0;
  for (size_t begin = 0; begin < ordinals.size(); begin = end) {
    int64_t num_tokens = total;
    if (at_once) {
      end = ordinals.size();
    } else {
      num_tokens = length(ordinals[begin]);
      for (end = begin + 1; end < ordinals.size() && end - begin < max_candidates; ++end) {
        const int64_t more = length(ordinals[end]);
        if (more > max_tokens - num_tokens) break;
        num_tokens += more;
      }
    }
    for (const BatchQuery& query : queries_->QueriesOf(group)) {
      tasks_.push_back({.query = &query,
                        .ordinals = ordinals.data() + begin,
                        .num_candidates = static_cast<int64_t>(end - begin),
                        .indices = indices.data() + begin,
                        .num_tokens = static_cast<uint64_t>(num_tokens)});
    }
  }
}

// Cuts the tasks, in order, into calls within the executor's limits and max_call_work. Each task alone is within the
// limits, or has only one document.
void DeviceScorer::RunTasks(const Documents& documents) {
  size_t next = 0;
  while (next < tasks_.size() && lost_.ok()) {
    queries_->DropCancelledAndExpired();
    call_tasks_.clear();
    int64_t query_tokens = 0;
    int64_t candidates = 0;
    uint64_t work = 0;
    for (; next < tasks_.size(); ++next) {
      const Task& task = tasks_[next];
      if (!Alive(*task.query)) continue;
      const uint64_t task_work = task.num_tokens * static_cast<uint64_t>(task.query->job_query->num_tokens);
      const bool fits = static_cast<int64_t>(call_tasks_.size()) < limits_.max_queries &&
                        query_tokens + task.query->job_query->num_tokens <= limits_.max_query_tokens &&
                        candidates + task.num_candidates <= limits_.max_candidates && work <= max_call_work_ &&
                        task_work <= max_call_work_ - work;
      if (!fits && !call_tasks_.empty()) break;
      work += task_work;
      query_tokens += task.query->job_query->num_tokens;
      candidates += task.num_candidates;
      call_tasks_.push_back(task);
    }
    if (!call_tasks_.empty()) RunCall(documents, call_tasks_);
  }
}

void DeviceScorer::RunCall(const Documents& documents, absl::Span<const Task> tasks) {
  call_queries_.clear();
  for (const Task& task : tasks) {
    Query& query = call_queries_.emplace_back(ToQuery(*task.query));
    query.ordinals = task.ordinals;
    query.num_candidates = task.num_candidates;
    query.mask = task.mask;
    if (task.filter != nullptr) query.top_k += static_cast<int32_t>(task.filter->tombstones.size());
  }
  if (results_.size() < tasks.size()) results_.resize(tasks.size());
  const auto results = absl::MakeSpan(results_).first(tasks.size());
  CallTimings timings;
  const absl::Status status = executor_->TopK(documents, call_queries_, results, &timings);
  if (!status.ok()) {
    if (tasks.size() == 1 || absl::IsUnavailable(status)) {
      FailCall(tasks.front().query->job_idx, status);
      return;
    }
    // The backend refused the whole call, perhaps because of one query. The other queries must not fail, so each query
    // gets a call of its own.
    for (const Task& task : tasks) {
      if (Alive(*task.query)) RunCall(documents, absl::MakeConstSpan(&task, 1));
    }
    return;
  }
  work_.timings += timings;
  for (size_t idx = 0; idx < tasks.size(); ++idx) {
    const Task& task = tasks[idx];
    work_.token_pairs += task.num_tokens * static_cast<uint64_t>(task.query->job_query->num_tokens);
    if (idx == 0 || !SameCandidates(task, tasks[idx - 1])) work_.document_tokens += task.num_tokens;
    AddHits(task, results[idx]);
  }
}

void DeviceScorer::AddHits(const Task& task, absl::Span<const Scored> scored) {
  if (scored.empty()) return;
  const JobQuery& query = *task.query->job_query;
  const auto top_k = static_cast<size_t>(query.top_k);
  DeviceHits& found = found_[task.query->idx];
  std::vector<Hit>& hits = found.hits;
  hits.reserve(hits.size() + std::min(scored.size(), top_k));
  size_t num_wanted = top_k;  // hits still to take; `scored` is longer if some documents have a tombstone
  for (const Scored& one : scored) {
    if (num_wanted == 0) break;
    if (task.indices == nullptr) {
      const uint32_t in_part = task.ordinals == nullptr ? one.position : task.ordinals[one.position];
      if (task.filter != nullptr && task.filter->HasTombstone(in_part)) continue;
      --num_wanted;
      const uint64_t ordinal = task.base + in_part;
      hits.push_back({one.score, ordinal, ordinal});
    } else {
      const uint32_t idx = task.indices[one.position];
      hits.push_back({one.score, query.candidates->positions[idx], query.candidates->ordinals[idx]});
    }
  }
  ++found.num_lists;
  // With many parts, each could add top_k hits. So keep at most 4 * top_k.
  if (hits.size() > 4 * top_k) {
    std::nth_element(hits.begin(), hits.begin() + static_cast<ptrdiff_t>(top_k), hits.end(), RanksBefore);
    hits.resize(top_k);
  }
}

}  // namespace maxsim::engine
