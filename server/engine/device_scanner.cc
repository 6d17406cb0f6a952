#include "server/engine/device_scanner.h"

#include <algorithm>
#include <bit>

#include "kernels/rank_order.h"
#include "server/engine/device_scorer.h"

namespace maxsim::engine {
namespace {

// Maps scores to integers in the same order. Scans never return -0.
uint32_t KeyOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score);
  return bits >> 31 != 0 ? ~bits : bits | uint32_t{1} << 31;
}

// Shortens lists that are in rank order, so that together they keep the best `count` entries, and any others with the
// same score as the last of these. Finds that score by bisection, because few entries of many lists are among the best.
void KeepBest(size_t count, absl::Span<absl::Span<const Scored>> lists) {
  const auto at_least = [](absl::Span<const Scored> list, uint32_t key) {
    const auto end =
        std::partition_point(list.begin(), list.end(), [key](const Scored& one) { return KeyOf(one.score) >= key; });
    return static_cast<size_t>(end - list.begin());
  };
  // Adds the bits of the largest key that `count` candidates have at least.
  uint32_t lowest = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    size_t num_at_least = 0;
    for (const absl::Span<const Scored> list : lists) num_at_least += at_least(list, lowest | bit);
    if (num_at_least >= count) lowest |= bit;
  }
  for (absl::Span<const Scored>& list : lists) list = list.first(at_least(list, lowest));
}

}  // namespace

DeviceScanner::~DeviceScanner() { devices_.ChangeScanBytes(device_, -static_cast<int64_t>(reported_bytes_)); }

void DeviceScanner::BeginBatch(BatchQueries* queries, absl::Span<const ScanTask> tasks) {
  queries_ = queries;
  tasks_ = tasks;
  if (found_.size() < tasks.size()) found_.resize(tasks.size());
  Reset();
}

void DeviceScanner::Reset() {
  lost_ = absl::OkStatus();
  parts_.clear();
  timings_ = {};
  token_pairs_ = 0;
  for (size_t idx = 0; idx < tasks_.size(); ++idx) found_[idx].clear();
}

void DeviceScanner::Scan() {
  if (executor_ == nullptr) {
    absl::StatusOr<std::unique_ptr<ScanExecutor>> made = devices_.backend(device_).CreateScanExecutor();
    if (made.ok()) {
      executor_ = *std::move(made);
    } else if (absl::IsUnavailable(made.status())) {
      lost_ = made.status();
    } else {
      for (const ScanTask& task : tasks_) queries_->Fail(task.query->job_idx, made.status());
    }
  }
  // Adjacent tasks have the same candidates.
  size_t next = 0;
  while (next < tasks_.size() && lost_.ok() && queries_->AnyAlive()) {
    const size_t group_idx = tasks_[next].query->group_idx;
    int64_t query_tokens = 0;
    int64_t results = 0;
    members_.clear();
    for (; next < tasks_.size() && tasks_[next].query->group_idx == group_idx; ++next) {
      const int64_t more = tasks_[next].query->job_query->num_tokens;
      if (static_cast<int64_t>(members_.size()) == kMaxScanQueries) break;
      if (!members_.empty() &&
          (query_tokens + more > kMaxScanCallTokens || results + tasks_[next].num_results > max_call_results_)) {
        break;
      }
      query_tokens += more;
      results += tasks_[next].num_results;
      members_.push_back(next);
    }
    const uint64_t max_tokens = max_call_work_ / static_cast<uint64_t>(query_tokens);
    ScanParts(queries_->groups()[group_idx], static_cast<int64_t>(std::min(max_tokens, uint64_t{1} << 62)));
  }
  parts_.clear();
}

void DeviceScanner::ScanParts(const QueryGroup& group, int64_t max_tokens) {
  for (const uint32_t part_idx : parts_) {
    // If no query of a group is alive (each one's job has failed), its list of candidates may be left from an earlier
    // batch.
    if (!lost_.ok() || !queries_->AnyAlive(group)) break;
    const store::Part& part = queries_->collection().part(part_idx);
    const Candidates candidates = CandidatesIn(part, part_idx, group);
    if (candidates.ordinals == nullptr && part.num_tokens() <= max_tokens) {
      Add(candidates, max_tokens);
    } else {
      AddInRanges(candidates, max_tokens);
    }
  }
  ScanPending();
}

DeviceScanner::Candidates DeviceScanner::CandidatesIn(const store::Part& part, uint32_t part_idx,
                                                      const QueryGroup& group) const {
  Candidates candidates{
      .part = &part, .count = part.num_documents(), .num_tokens = static_cast<uint64_t>(part.num_tokens())};
  if (group.set->kind == CandidateSet::Kind::kOrdinals) {
    const CandidatesByPart& listed = queries_->CandidatesOf(group);
    candidates.ordinals = listed.ordinals(part_idx).data();
    candidates.indices = listed.indices(part_idx).data();
    candidates.count = static_cast<int64_t>(listed.ordinals(part_idx).size());
  } else if (group.set->kind == CandidateSet::Kind::kMatching) {
    const store::MatchingDocuments& matching = *group.set->matching;
    candidates.num_tokens = matching.num_tokens(part_idx);
    if (matching.num_documents(part_idx) == 0) {
      candidates.count = 0;
    } else if (matching.mask(part_idx) != nullptr) {
      candidates.mask = {.words = matching.mask(part_idx), .num_tokens = candidates.num_tokens};
    } else {
      candidates.kept_list = matching.List(part_idx);
      candidates.ordinals = candidates.kept_list->data();
      candidates.count = static_cast<int64_t>(candidates.kept_list->size());
    }
  } else if (queries_->collection().num_tombstones(part_idx) != 0) {
    candidates.mask = queries_->collection().scan_mask(part_idx);
    candidates.num_tokens = candidates.mask->num_tokens;
  }
  return candidates;
}

void DeviceScanner::AddInRanges(const Candidates& candidates, int64_t max_tokens) {
  const int64_t* const offsets = candidates.part->view.offsets;
  int64_t last = 0;
  for (int64_t first = 0; first < candidates.count && lost_.ok() && queries_->AnyAlive(); first = last) {
    Candidates range = candidates;
    range.num_tokens = 0;
    if (candidates.ordinals == nullptr) {
      ScanPending();  // it may use ordinals_
      last = EndOfRange(candidates.part->view, first, candidates.count, max_tokens);
      ordinals_.clear();
      for (int64_t ordinal = first; ordinal < last; ++ordinal) {
        if (candidates.mask.has_value() && !candidates.mask->Has(ordinal)) continue;
        ordinals_.push_back(static_cast<uint32_t>(ordinal));
        range.num_tokens += static_cast<uint64_t>(offsets[ordinal + 1] - offsets[ordinal]);
      }
      range.ordinals = ordinals_.data();
      range.count = static_cast<int64_t>(ordinals_.size());
      range.mask.reset();
    } else {
      int64_t tokens = 0;
      for (last = first; last < candidates.count; ++last) {
        const uint32_t ordinal = candidates.ordinals[last];
        const int64_t more = offsets[ordinal + 1] - offsets[ordinal];
        if (last > first && more > max_tokens - tokens) break;
        tokens += more;
      }
      range.ordinals = candidates.ordinals + first;
      range.indices = candidates.indices == nullptr ? nullptr : candidates.indices + first;
      range.num_tokens = static_cast<uint64_t>(tokens);
      range.count = last - first;
    }
    Add(range, max_tokens);
  }
}

void DeviceScanner::Add(const Candidates& candidates, int64_t max_tokens) {
  if (candidates.count == 0) return;
  // A scan may also compute what the mask leaves out, so count these documents.
  const int64_t tokens =
      candidates.mask.has_value() ? candidates.part->num_tokens() : static_cast<int64_t>(candidates.num_tokens);
  int64_t results = 0;
  for (const size_t task : members_) results += std::min<int64_t>(tasks_[task].num_results, candidates.count);
  if (tokens > max_tokens - pending_tokens_ || results > max_call_results_ - pending_results_ ||
      pending_.size() == kMaxCallParts) {
    ScanPending();
  }
  pending_.push_back(candidates);
  pending_tokens_ += tokens;
  pending_results_ += results;
}

void DeviceScanner::ScanPending() {
  if (pending_.empty()) return;
  if (lost_.ok()) queries_->DropCancelledAndExpired();
  std::erase_if(members_, [this](size_t task) { return !Alive(tasks_[task]); });
  absl::Status status;
  if (!members_.empty()) status = Call(members_);
  if (absl::IsUnavailable(status)) {
    lost_ = std::move(status);
  } else if (!status.ok()) {
    // The backend refused the whole call, perhaps because of one query. The other queries must not fail, so each query
    // gets a call of its own.
    for (const size_t task : members_) {
      if (!Alive(tasks_[task])) continue;
      const absl::Status alone = members_.size() > 1 ? Call(absl::MakeConstSpan(&task, 1)) : status;
      if (absl::IsUnavailable(alone)) {
        lost_ = alone;
      } else if (!alone.ok()) {
        queries_->Fail(tasks_[task].query->job_idx, alone);
      }
    }
  }
  pending_.clear();
  pending_tokens_ = 0;
  pending_results_ = 0;
}

absl::Status DeviceScanner::Call(absl::Span<const size_t> task_indices) {
  const size_t num_scans = pending_.size() * task_indices.size();
  scan_queries_.clear();
  for (const Candidates& candidates : pending_) {
    for (const size_t task : task_indices) {
      scan_queries_.push_back({.codes = &tasks_[task].codes,
                               .ordinals = candidates.ordinals,
                               .num_candidates = candidates.count,
                               .mask = candidates.mask.has_value() ? candidates.mask->words->data() : nullptr,
                               .num_results = tasks_[task].num_results,
                               .order = tasks_[task].order});
    }
  }
  if (results_.size() < num_scans) results_.resize(num_scans);
  calls_.clear();
  for (size_t idx = 0; idx < pending_.size(); ++idx) {
    const size_t begin = idx * task_indices.size();
    calls_.push_back({.codes = pending_[idx].part->CodesOn(device_),
                      .queries = absl::MakeConstSpan(scan_queries_).subspan(begin, task_indices.size()),
                      .results = absl::MakeSpan(results_).subspan(begin, task_indices.size())});
  }
  absl::Status status = executor_->Scan(calls_, &timings_);
  ReportWorkspace();
  for (const Candidates& candidates : pending_) {
    // If the file of the codes is read in place, it may have changed during the scan.
    if (status.ok() && candidates.part->codes != nullptr) status = candidates.part->codes->Check();
  }
  if (!status.ok()) return status;
  for (size_t idx = 0; idx < task_indices.size(); ++idx)
    AddFound(task_indices[idx], &results_[idx], task_indices.size());
  return absl::OkStatus();
}

void DeviceScanner::ReportWorkspace() {
  const size_t bytes = executor_->workspace_bytes();
  if (bytes == reported_bytes_) return;
  devices_.ChangeScanBytes(device_, static_cast<int64_t>(bytes) - static_cast<int64_t>(reported_bytes_));
  reported_bytes_ = bytes;
}

void DeviceScanner::AddFound(size_t task_idx, const std::vector<Scored>* results, size_t step) {
  const auto num_results = static_cast<size_t>(tasks_[task_idx].num_results);
  best_.clear();
  for (size_t part = 0; part < pending_.size(); ++part) best_.push_back(results[part * step]);
  KeepBest(num_results, absl::MakeSpan(best_));
  std::vector<ScannedCandidate>& found = found_[task_idx];
  for (size_t part = 0; part < pending_.size(); ++part) {
    const Candidates& candidates = pending_[part];
    token_pairs_ += static_cast<uint64_t>(tasks_[task_idx].query->job_query->num_tokens) * candidates.num_tokens;
    for (const Scored& one : best_[part]) {
      uint64_t position = 0;
      if (candidates.indices != nullptr) {
        position = candidates.indices[one.position];
      } else {
        const uint32_t in_part = candidates.ordinals == nullptr ? one.position : candidates.ordinals[one.position];
        position = candidates.part->first_ordinal + in_part;
      }
      found.push_back({one.score, position});
    }
  }
  // Drop all but the best candidates now and then. A collection of many parts would otherwise gather num_results
  // candidates from each call.
  if (found.size() > 4 * num_results) {
    std::nth_element(found.begin(), found.begin() + static_cast<ptrdiff_t>(num_results), found.end(), RanksBefore);
    found.resize(num_results);
  }
}

}  // namespace maxsim::engine
