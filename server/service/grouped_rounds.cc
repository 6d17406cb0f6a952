#include "server/service/grouped_rounds.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "collection/fields/field_reader.h"
#include "collection/filters/filter.h"
#include "kernels/rank_order.h"
#include "server/service/request/candidates.h"
#include "server/service/request/refinement.h"

namespace maxsim::service {
namespace {

constexpr int32_t kRankedGrowth = 4;

// Compares groups by their best documents.
constexpr auto BestRanksBefore = [](const auto& a, const auto& b) {
  return RanksBefore(a.hits.front(), b.hits.front());
};

}  // namespace

GroupedRounds::GroupedRounds(Translated translated, const GroupedRoundsOptions& options)
    : options_(options),
      answer_(std::move(translated.answer)),
      grouping_(answer_.grouping),
      page_(answer_.page),
      first_(std::move(translated.job)) {
  rankings_.resize(first_->queries.size());
  for (size_t query = 0; query < answer_.queries.size(); ++query) {
    const int job_query = answer_.queries[query].job_query;
    if (job_query >= 0) rankings_[static_cast<size_t>(job_query)].query = query;
  }
  result_.queries.resize(rankings_.size());
  const auto num_results = static_cast<int64_t>(grouping_->num_groups * grouping_->group_size);
  num_ranked_ = static_cast<int32_t>(
      std::clamp<int64_t>(num_results, std::min(options_.min_ranked, options_.max_ranked), options_.max_ranked));
}

absl::StatusOr<std::unique_ptr<engine::Job>> GroupedRounds::Next(const StopCheck& check) {
  auto job = std::make_unique<engine::Job>();
  asked_.clear();
  if (stage_ == Stage::kGroups) {
    if (absl::Status status = AskForGroups(check, *job); !status.ok()) return status;
    if (job->queries.empty()) stage_ = Stage::kMembers;
  }
  if (stage_ == Stage::kMembers) {
    if (absl::Status status = AskForMembers(check, *job); !status.ok()) return status;
    if (job->queries.empty()) {
      Arrange();
      stage_ = first_->queries.front().want_alignments ? Stage::kAlignments : Stage::kDone;
    }
  }
  if (stage_ == Stage::kAlignments) AskForAlignments(*job);
  if (job->queries.empty()) {
    stage_ = Stage::kDone;
    return nullptr;
  }
  ++num_jobs_;
  job->collection = first_->collection;
  job->priority = first_->priority;
  job->fail_on_unavailable = first_->fail_on_unavailable;
  job->pinned = true;  // all rounds are of one snapshot
  engine::ComputeWork(job.get());
  return job;
}

absl::Status GroupedRounds::AskForGroups(const StopCheck& check, engine::Job& job) {
  if (num_jobs_ > 0) num_ranked_ = std::min(options_.max_ranked, kRankedGrowth * num_ranked_);
  for (size_t idx = 0; idx < rankings_.size(); ++idx) {
    Ranking& ranking = rankings_[idx];
    if (ranking.has_all_groups) continue;
    std::shared_ptr<const engine::CandidateSet> candidates = first_->queries[idx].candidates;
    if (!ranking.groups.empty()) {
      std::vector<collection::FilterValue> values;
      for (const Group& group : ranking.groups) values.emplace_back(group.value);
      std::sort(values.begin(), values.end());
      auto outside =
          Narrow(idx, collection::Filter::Not(collection::Filter::In(grouping_->field, std::move(values))), check);
      if (!outside.ok()) return outside.status();
      candidates = *std::move(outside);
    }
    if (candidates->num_documents(*first_->collection) == 0) {
      ranking.has_all_groups = true;
      continue;
    }
    Asked asked{.ranking = idx, .group = {}, .num_ranked = num_ranked_};
    // A search with codes cannot rank more than it scores exactly.
    if (grouping_->refinement.documents() != 0) {
      asked.num_ranked = static_cast<int32_t>(
          std::min<int64_t>(asked.num_ranked, static_cast<int64_t>(grouping_->refinement.documents())));
    }
    if (absl::Status status = AddQuery(asked, std::move(candidates), job); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status GroupedRounds::AskForMembers(const StopCheck& check, engine::Job& job) {
  for (size_t idx = 0; idx < rankings_.size(); ++idx) {
    const std::vector<Group>& groups = rankings_[idx].groups;
    for (auto group = static_cast<size_t>(page_.offset); group < groups.size(); ++group) {
      if (groups[group].is_complete) continue;
      auto members = Narrow(idx, collection::Filter::Equals(grouping_->field, groups[group].value), check);
      if (!members.ok()) return members.status();
      const Asked asked{.ranking = idx, .group = group, .num_ranked = static_cast<int32_t>(grouping_->group_size)};
      if (absl::Status status = AddQuery(asked, *std::move(members), job); !status.ok()) return status;
      if (job.queries.size() >= options_.max_queries_per_job) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

void GroupedRounds::AskForAlignments(engine::Job& job) {
  for (size_t idx = 0; idx < rankings_.size(); ++idx) {
    const std::vector<engine::Hit>& hits = result_.queries[idx].hits;
    if (hits.empty() || !result_.queries[idx].matches.empty()) continue;
    auto set = std::make_shared<engine::CandidateSet>();
    set->kind = engine::CandidateSet::Kind::kOrdinals;
    for (size_t hit = 0; hit < hits.size(); ++hit) {
      set->ordinals.push_back(hits[hit].ordinal);
      set->positions.push_back(static_cast<uint32_t>(hit));
    }
    asked_.push_back({.ranking = idx, .group = {}, .num_ranked = static_cast<int32_t>(hits.size())});
    engine::JobQuery& query = job.queries.emplace_back(first_->queries[idx]);
    query.top_k = static_cast<int32_t>(hits.size());
    query.refinement = {};
    query.candidates = std::move(set);
  }
}

absl::Status GroupedRounds::AddQuery(const Asked& asked, std::shared_ptr<const engine::CandidateSet> candidates,
                                     engine::Job& job) {
  const uint64_t num_candidates = candidates->num_documents(*first_->collection);
  engine::JobQuery query = first_->queries[asked.ranking];
  query.top_k = asked.num_ranked;
  query.want_alignments = false;
  query.candidates = std::move(candidates);
  if (first_->collection->code_planes() > 0) {
    const absl::StatusOr<engine::RefinementOptions> refinement = RefinementFor(
        grouping_->refinement, query.top_k, num_candidates, GpuBytes(*first_->collection, num_candidates));
    if (!refinement.ok()) return refinement.status();
    query.refinement = *refinement;
  }
  job.queries.push_back(std::move(query));
  asked_.push_back(asked);
  return absl::OkStatus();
}

// Returns the candidates of a query that match one more filter.
absl::StatusOr<std::shared_ptr<const engine::CandidateSet>> GroupedRounds::Narrow(size_t ranking,
                                                                                  collection::Filter filter,
                                                                                  const StopCheck& check) const {
  std::vector<collection::Filter> filters = grouping_->filters;
  filters.push_back(std::move(filter));
  const auto matching = first_->collection->FindCanonical(AllOf(std::move(filters)), store::FilterUse::kOnce, check);
  if (!matching.ok()) return matching.status();
  return NarrowCandidates(*first_->queries[ranking].candidates, *first_->collection, *matching);
}

absl::Status GroupedRounds::Take(engine::JobResult result) {
  if (result.queries.size() != asked_.size()) return absl::InternalError("a result has another number of queries");
  result_.queue_time += result.queue_time;
  result_.copy_time += result.copy_time;
  result_.kernel_time += result.kernel_time;
  for (size_t i = 0; i < asked_.size(); ++i) {
    const Asked& asked = asked_[i];
    engine::JobQueryResult& scored = result.queries[i];
    Ranking& ranking = rankings_[asked.ranking];
    engine::JobQueryResult& whole = result_.queries[asked.ranking];
    if (stage_ == Stage::kAlignments) {
      const size_t num_tokens = scored.hits.empty() ? 0 : scored.matches.size() / scored.hits.size();
      whole.matches.resize(whole.hits.size() * num_tokens);
      for (size_t hit = 0; hit < scored.hits.size(); ++hit) {
        std::copy_n(scored.matches.begin() + static_cast<std::ptrdiff_t>(hit * num_tokens), num_tokens,
                    whole.matches.begin() + static_cast<std::ptrdiff_t>(scored.hits[hit].position * num_tokens));
      }
      continue;
    }
    AddRefinement(scored, ranking);
    if (asked.group.has_value()) {
      Group& group = ranking.groups[*asked.group];
      group.hits = std::move(scored.hits);
      std::erase_if(group.hits, [&](const engine::Hit& hit) { return IsLeftOut(ranking, hit); });
      group.is_complete = true;
      continue;
    }
    if (ranking.groups.empty()) whole.num_unavailable = scored.num_unavailable;
    if (absl::Status status = TakeGroups(ranking, scored.hits, asked.num_ranked); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status GroupedRounds::TakeGroups(Ranking& ranking, absl::Span<const engine::Hit> hits, int32_t num_ranked) {
  const store::Collection& collection = *first_->collection;
  collection::FieldReader reader(collection.manifest().fields);
  const size_t first_new = ranking.groups.size();
  size_t num_open = 0;  // new groups that have room
  // True if no candidate after these hits can be in the answer: all candidates are ranked, or the last hit's score is
  // below min_score.
  const bool covers_all = hits.size() < static_cast<size_t>(num_ranked) || IsLeftOut(ranking, hits.back());
  for (const engine::Hit& hit : hits) {
    if (IsLeftOut(ranking, hit)) break;
    if (ranking.groups.size() == grouping_->num_groups && num_open == 0) break;
    const auto values = reader.Read(collection.payload(hit.ordinal));
    if (!values.ok()) return values.status();
    const auto* const value = std::get_if<std::string>(&(**values)[grouping_->field_idx]);
    if (value == nullptr) return absl::InternalError("a candidate has no value of the field to group by");
    auto known = ranking.by_value.find(*value);
    if (known == ranking.by_value.end()) {
      if (ranking.groups.size() == grouping_->num_groups) continue;
      known = ranking.by_value.emplace(*value, ranking.groups.size()).first;
      ranking.groups.push_back({.value = *value});
      ++num_open;
    }
    Group& group = ranking.groups[known->second];
    if (group.hits.size() == grouping_->group_size) continue;
    group.hits.push_back(hit);
    if (group.hits.size() == grouping_->group_size) --num_open;
  }
  for (size_t group = first_new; group < ranking.groups.size(); ++group) {
    ranking.groups[group].is_complete = covers_all || ranking.groups[group].hits.size() == grouping_->group_size;
  }
  ranking.has_all_groups = covers_all || ranking.groups.size() == grouping_->num_groups;
  return absl::OkStatus();
}

bool GroupedRounds::IsLeftOut(const Ranking& ranking, const engine::Hit& hit) const {
  return ScoreOf(answer_, answer_.queries[ranking.query], hit.score) < page_.min_score;
}

void GroupedRounds::AddRefinement(const engine::JobQueryResult& result, Ranking& ranking) const {
  if (!result.refinement.has_value()) return;
  const PendingAnswer::Query& query = answer_.queries[ranking.query];
  const v1::Refinement one = ToWire(result, answer_.normalize ? static_cast<float>(query.num_tokens) : 1.0F);
  if (!ranking.refinement.has_value()) {
    ranking.refinement = one;
    return;
  }
  AddScan(one, *ranking.refinement);
}

void GroupedRounds::Arrange() {
  answer_.grouped.resize(answer_.queries.size());
  for (size_t idx = 0; idx < rankings_.size(); ++idx) {
    Ranking& ranking = rankings_[idx];
    PendingAnswer::GroupedQuery& grouped = answer_.grouped[ranking.query];
    grouped.refinement = ranking.refinement;
    const auto begin = std::min(static_cast<size_t>(page_.offset), ranking.groups.size());
    std::vector<Group> groups(std::make_move_iterator(ranking.groups.begin() + static_cast<std::ptrdiff_t>(begin)),
                              std::make_move_iterator(ranking.groups.end()));
    std::erase_if(groups, [](const Group& group) { return group.hits.empty(); });
    // Sort the groups again. A scan of codes may have missed a group's best document, which the group's own query has
    // found.
    std::stable_sort(groups.begin(), groups.end(), BestRanksBefore);
    for (const Group& group : groups) {
      for (const engine::Hit& hit : group.hits) {
        result_.queries[idx].hits.push_back(hit);
        grouped.values.push_back(group.value);
      }
    }
  }
  answer_.page = Page();  // the results are those of the page
}

}  // namespace maxsim::service
