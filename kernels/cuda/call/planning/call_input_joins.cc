// Joins candidate lists of a call: chooses the lists, and replaces their query groups (queries with the same
// candidates) by one group.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/call/planning/call_input.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/list_join.h"
#include "kernels/plan/plan_score.h"

namespace maxsim::cuda {
namespace {

// Joining lists takes about 20 us on an H200, on the host and on the device together. In this time the memory delivers
// kJoinBytes. If a call reads less than kWorthJoining times as many bytes, its lists are not even compared.
constexpr double kJoinBytes = 92e6;
constexpr double kWorthJoining = 3;
// Scoring the union of joined lists takes longer than the cost model predicts, by these factors, because its documents
// end in the middle of token tiles. The factors were fitted to the times of docs/lab/2026-11-24-kernels.md, so that
// lists are joined if that saves a tenth or more of the time on the device.
constexpr double kUnionPace = 1.25;
constexpr double kUnionPaceI8 = 1.4;

}  // namespace

// Returns the time of joining lists, as the number of documents that the device could read in this time.
double CallInput::JoinReads(const ScoreRoom& room) {
  return room.join_always ? 0 : kJoinBytes / std::max(room.document_bytes, 1.0);
}

// Returns joins of groups_, named by their indices in groups_. Returns no joins, without comparing the lists, if
// reading their documents takes too little time for a join to pay.
std::vector<ListJoin> CallInput::FindWorthwhileJoins(const ScoreRoom& room) const {
  std::vector<CandidateList> lists;
  std::vector<int32_t> groups;
  double reads = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t query_tiles = group_shapes_[g].packed_query_tiles;
    if (groups_[g].ordinals == nullptr || query_tiles >= kJoinedQueryTiles) continue;
    lists.push_back({{groups_[g].ordinals, static_cast<size_t>(groups_[g].num_candidates)}, query_tiles});
    groups.push_back(static_cast<int32_t>(g));
    reads += static_cast<double>(groups_[g].num_candidates);
  }
  if (reads < kWorthJoining * JoinReads(room)) return {};
  std::vector<ListJoin> joins = FindJoins(lists);
  for (ListJoin& join : joins) {
    for (int32_t& list : join.lists) list = groups[list];
  }
  return joins;
}

// Replaces groups whose lists are worth joining by groups of their unions, and plans the scoring anew.
absl::Status CallInput::JoinLists(int64_t num_documents, const DeviceLimits& limits, const ScoreRoom& room) {
  const int64_t words = (num_documents + 31) / 32;
  if (!room.join || groups_.size() < 2 || room.join_words < words) return absl::OkStatus();
  std::vector<ListJoin> joins = FindWorthwhileJoins(room);
  joins.resize(std::min(joins.size(), static_cast<size_t>(room.join_words / words)));
  if (joins.empty()) return absl::OkStatus();

  std::vector<QueryGroup> groups;
  std::vector<QueryGroupShape> group_shapes;
  std::vector<bool> joined(groups_.size());
  int64_t partials = 0, most_candidates = most_candidates_, union_ordinals = 0;
  for (const ListJoin& join : joins) {
    QueryGroup group{nullptr, join.most, union_ordinals, {}, static_cast<int64_t>(groups.size()) * words};
    union_ordinals += join.most;
    for (int32_t g : join.lists) {
      group.queries.insert(group.queries.end(), groups_[g].queries.begin(), groups_[g].queries.end());
      joined[g] = true;
    }
    partials += PartialQueryTiles(group) * join.most;
    most_candidates = std::max(most_candidates, join.most);
    group_shapes.push_back(ShapeOf(group, join.expected));
    groups.push_back(std::move(group));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (joined[g]) continue;
    partials += PartialQueryTiles(groups_[g]) * most_candidates;
    group_shapes.push_back(group_shapes_[g]);
    groups.push_back(groups_[g]);
  }
  // A union is scored in one pass.
  if (partials > room.partials || most_candidates > kMaxPassCandidates) return absl::OkStatus();
  ScorePlan plan;
  // With join_always, PlanScore gets 0 as the mean bytes of a document, so that it does not choose a stream kernel for
  // a short call: in a stream kernel, each query would read the whole union of the lists.
  MAXSIM_ASSIGN_OR_RETURN(plan,
                          PlanScore(type_, dim_, group_shapes, limits, room.join_always ? 0 : room.document_bytes));
  if (TraitsOf(plan.tile).query_tiles() == 1) return absl::OkStatus();  // each query would read the union
  const double pace = room.join_always ? 1 : type_ == ScalarType::kI8 ? kUnionPaceI8 : kUnionPace;
  const double reads = pace * EstimatedReads(group_shapes, plan.tile) + JoinReads(room);
  if (reads >= EstimatedReads(group_shapes_, score_plan_.tile)) return absl::OkStatus();

  // The unions' ordinals follow those of the lists.
  const int64_t first =
      static_cast<int64_t>(AlignPart(static_cast<size_t>(num_ordinals_) * sizeof(uint32_t)) / sizeof(uint32_t));
  for (size_t j = 0; j < joins.size(); ++j) {
    groups[j].ordinals_begin += first;
    for (int32_t g : joins[j].lists) {
      const QueryGroup& list = groups_[g];
      joined_lists_.push_back({list.ordinals_begin, list.num_candidates, groups[j].words_begin});
      longest_joined_ = std::max(longest_joined_, list.num_candidates);
    }
  }
  num_union_ordinals_ = union_ordinals;
  words_of_union_ = words;
  num_join_words_ = static_cast<int64_t>(joins.size()) * words;
  most_candidates_ = most_candidates;
  groups_ = std::move(groups);
  group_shapes_ = std::move(group_shapes);
  score_plan_ = plan;
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
