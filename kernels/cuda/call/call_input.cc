#include "kernels/cuda/call/call_input.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/score/hopper_stream/config.h"
#include "kernels/plan/cost_model.h"
#include "kernels/plan/plan_score.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/select.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {
namespace {

// Queries of one slice: bounds the tables and the workspace of large selections (117 KiB a query).
constexpr int64_t kMaxSliceQueries = 256;
// Results of one slice: 64 queries with the most results each, 5 MB.
constexpr int64_t kMaxSliceResults = 64 * int64_t{kMaxTopK};
// Query bytes of one slice, unless a single query takes more.
constexpr int64_t kMinSliceQueryBytes = int64_t{16} << 20;

constexpr size_t kPartAlignment = 256;

// What joining lists takes beside the scoring, on the host and on the device, in bytes that the memory reads meanwhile:
// about 20 us on an H200. Calls of less than three times that are not looked at.
constexpr double kJoinBytes = 92e6;
constexpr double kWorthJoining = 3;
// A union's documents end in the middle of tiles, which takes longer than the tilings' own paces say. Fitted to the
// times of docs/lab/2026-11-24-kernels.md, so that lists are joined where that gains a tenth or more on the device.
constexpr double kUnionPace = 1.25;
constexpr double kUnionPaceI8 = 1.4;

int64_t NumQueryTiles(int64_t num_tokens) { return (num_tokens + kQueryTileTokens - 1) / kQueryTileTokens; }

// Counts the query tiles that queries take where their tails share some.
class PackedQueryTiles {
 public:
  // Counts a query of `num_tokens` tokens. `to_partials` is that of its query tiles' outputs (QueryTileOutput).
  void Add(int64_t num_tokens, bool to_partials) {
    const int64_t rows = PackedRows(num_tokens);
    whole_ += rows / kQueryTileTokens;
    if (rows % kQueryTileTokens > 0)
      ++parts_[to_partials ? 1 : 0][rows % kQueryTileTokens == kShortQueryTokens ? 0 : 1];
  }
  int64_t count() const {
    int64_t blocks = whole_;
    for (const auto& parts : parts_) blocks += (parts[0] + 3) / 4 + (parts[1] + 1) / 2;
    return blocks;
  }

 private:
  int64_t whole_ = 0;
  int64_t parts_[2][2] = {};  // by to_partials; of 8 rows and of 16
};

// Writes a query tile in the order of StreamQueryOffset: `num_rows` rows of `row_bytes`, or more, of which the first
// kQueryTileTokens count; zeros behind each, up to `pitch`, and for absent ones. It is written from front to back: a
// lane's operand is two words of a row and two of the row 8 further, interleaved.
void WriteOperands(const uint8_t* rows, int32_t num_rows, size_t row_bytes, size_t pitch, uint8_t* block) {
  static_assert(StreamQueryOffset(8, 0) == 4 && StreamQueryOffset(0, 4) == 8 && StreamQueryOffset(0, 8) == 16 &&
                StreamQueryOffset(1, 0) == 4 * 16 && StreamQueryOffset(16, 0) == 32 * 16 &&
                StreamQueryOffset(0, kStepBytes) == 2 * 32 * 16);
  constexpr uint64_t kLow = 0xffffffffu;
  constexpr size_t kPairs = kStepBytes / sizeof(uint64_t);
  using Step = std::array<uint64_t, kPairs>;
  const auto step_of = [&](int32_t row, size_t begin) {
    Step step{};
    if (row >= num_rows || begin >= row_bytes) return step;
    const uint8_t* const from = rows + static_cast<size_t>(row) * row_bytes + begin;
    if (row_bytes - begin >= sizeof(step)) {
      std::memcpy(step.data(), from, sizeof(step));
    } else {
      std::memcpy(step.data(), from, row_bytes - begin);
    }
    return step;
  };
  for (size_t begin = 0; begin < pitch; begin += kStepBytes) {
    for (int32_t half = 0; half < kQueryTileTokens; half += 16) {
      for (int32_t row = half; row < half + 8; ++row) {
        const Step first = step_of(row, begin), second = step_of(row + 8, begin);
        for (size_t i = 0; i < kPairs; ++i) {
          const uint64_t operand[2] = {(first[i] & kLow) | second[i] << 32, first[i] >> 32 | (second[i] & ~kLow)};
          std::memcpy(block, operand, sizeof(operand));
          block += sizeof(operand);
        }
      }
    }
  }
}

// Returns the candidates of the row tile in the pass over candidates pass_first .. pass_first + pass_count.
int64_t CandidatesOfPass(const RowTile& tile, int64_t pass_first, int64_t pass_count) {
  return std::clamp<int64_t>(tile.num_candidates - pass_first, 0, pass_count);
}

size_t AlignUp(size_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

}  // namespace

SliceCapacity SliceCapacity::For(const ExecutorOptions& options) {
  SliceCapacity capacity;
  const int64_t query_tokens = std::min<int64_t>(options.max_query_tokens, kMaxQueryTokens);
  capacity.queries = std::clamp<int64_t>(options.max_queries, 1, kMaxSliceQueries);
  capacity.rows = std::max(options.max_query_tokens + (kQueryTileTokens - 1) * capacity.queries,
                           NumQueryTiles(query_tokens) * kQueryTileTokens);
  const int64_t widest_query =
      NumQueryTiles(query_tokens) * kQueryTileTokens * DeviceRowBytes(ScalarType::kF32, options.max_dim);
  capacity.query_bytes = std::max(
      widest_query, std::min(kMinSliceQueryBytes, capacity.rows * DeviceRowBytes(ScalarType::kF32, options.max_dim)));
  capacity.candidates = std::max<int64_t>(options.max_candidates, 1);
  capacity.scores = capacity.candidates + capacity.queries * kSelectAlignment;
  capacity.results = std::clamp<int64_t>(capacity.queries * kMaxTopK, kMaxTopK, kMaxSliceResults);
  capacity.partial_query_tiles = capacity.rows / kQueryTileTokens;
  return capacity;
}

size_t SliceCapacity::InputBytes() const {
  const size_t blocks = static_cast<size_t>(rows / kQueryTileTokens);
  return AlignUp(blocks * sizeof(RowTile)) + AlignUp(static_cast<size_t>(queries) * sizeof(PartialSums)) +
         AlignUp(static_cast<size_t>(queries) * sizeof(SelectQuery)) +
         AlignUp(static_cast<size_t>(rows) * sizeof(float)) + AlignUp(static_cast<size_t>(query_bytes)) +
         AlignUp(static_cast<size_t>(queries) * sizeof(JoinedList)) +
         AlignUp(static_cast<size_t>(queries) * sizeof(JoinedUnion)) +
         AlignUp(static_cast<size_t>(candidates) * sizeof(uint32_t));
}

size_t SliceCapacity::DeviceBytes() const {
  // A row of I8 has no more bytes than one of F32: 32 of 32 where it is shortest. Unions have no more documents than
  // their lists.
  return AlignUp(InputBytes()) + AlignUp(static_cast<size_t>(candidates) * sizeof(uint32_t)) +
         AlignUp(static_cast<size_t>(query_bytes)) + AlignUp(static_cast<size_t>(rows) * sizeof(float));
}

size_t QueriesOfSlice(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                      const SliceCapacity& capacity) {
  const int64_t query_pitch = StreamQueryPitch(DeviceRowBytes(QueryType(type), dim));  // no tile has a larger one
  int64_t rows = 0, candidates = 0, results = 0;
  size_t count = 0;
  for (const Query& query : queries) {
    const int64_t num_candidates = NumCandidates(query, num_documents);
    rows += NumQueryTiles(query.num_tokens) * kQueryTileTokens;
    candidates += num_candidates;
    results += std::min<int64_t>(query.top_k, num_candidates);
    const bool fits = static_cast<int64_t>(count) < capacity.queries && rows <= capacity.rows &&
                      rows * query_pitch <= capacity.query_bytes && candidates <= capacity.candidates &&
                      results <= capacity.results;
    if (!fits && count > 0) break;
    ++count;
  }
  return count;
}

void CallInput::Reset(ScalarType type, int32_t dim) {
  type_ = type;
  dim_ = dim;
  query_pitch_ = DeviceRowBytes(QueryType(type), dim);
  weighted_ = true;
  groups_.clear();
  places_.clear();
  row_order_.clear();
  plan_groups_.clear();
  row_tiles_.clear();
  partial_sums_.clear();
  joined_lists_.clear();
  unions_.clear();
  select_queries_.clear();
  small_selections_.clear();
  results_.clear();
  lists_.clear();
  num_rows_ = num_ordinals_ = num_results_ = num_keys_ = num_partials_ = 0;
  num_union_ordinals_ = num_join_words_ = words_of_union_ = longest_joined_ = 0;
  most_candidates_ = pass_candidates_ = num_placed_ = 0;
  num_large_ = most_splits_ = most_rank_blocks_ = 0;
}

void CallInput::FormGroups(int64_t num_documents) {
  for (size_t i = 0; i < queries_.size(); ++i) {
    const Query& query = queries_[i];
    const int64_t num_candidates = NumCandidates(query, num_documents);
    if (num_candidates == 0) continue;
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& other) {
      return other.ordinals == query.ordinals && other.num_candidates == num_candidates;
    });
    if (group == groups_.end()) {
      Group fresh{query.ordinals, num_candidates, -1, {}};
      if (query.ordinals != nullptr) {
        fresh.ordinals_begin = num_ordinals_;
        num_ordinals_ += num_candidates;
        lists_.emplace_back(query.ordinals, static_cast<size_t>(num_candidates));
      }
      group = groups_.insert(groups_.end(), std::move(fresh));
    }
    group->queries.push_back(static_cast<int32_t>(i));
    places_[i].ordinals_begin = group->ordinals_begin;
  }
}

QueryGroup CallInput::PlanGroup(const Group& group, int64_t num_candidates) const {
  QueryGroup plan_group{0, num_candidates};
  PackedQueryTiles packed;
  for (int32_t i : group.queries) {
    plan_group.num_query_tiles += NumQueryTiles(queries_[i].num_tokens);
    packed.Add(queries_[i].num_tokens, GivesPartials(group, queries_[i]));
  }
  plan_group.packed_query_tiles = packed.count();
  return plan_group;
}

// Returns whether what the query's query tiles give is added or picked from afterwards.
bool CallInput::GivesPartials(const Group& group, const Query& query) {
  return query.num_tokens > kQueryTileTokens || group.words_begin >= 0;
}

// Blocks of the group's queries that leave partial sums.
int64_t CallInput::PartialQueryTiles(const Group& group) const {
  int64_t partial_query_tiles = 0;
  for (int32_t i : group.queries) {
    if (GivesPartials(group, queries_[i])) partial_query_tiles += NumQueryTiles(queries_[i].num_tokens);
  }
  return partial_query_tiles;
}

// What joining takes, in documents that are read meanwhile.
double CallInput::JoinReads(const ScoreRoom& room) {
  return room.join_always ? 0 : kJoinBytes / std::max(room.document_bytes, 1.0);
}

// Joins of groups_, by their places there. Looks at lists only where reading them takes long enough.
std::vector<ListJoin> CallInput::FindWorthwhileJoins(const ScoreRoom& room) const {
  std::vector<CandidateList> lists;
  std::vector<int32_t> groups;
  double reads = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t blocks = plan_groups_[g].packed_query_tiles;
    if (groups_[g].ordinals == nullptr || blocks >= kJoinedQueryTiles) continue;
    lists.push_back({{groups_[g].ordinals, static_cast<size_t>(groups_[g].num_candidates)}, blocks});
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

// Replaces groups whose lists are worth joining by groups of their unions, and plans those.
absl::Status CallInput::JoinLists(int64_t num_documents, const DeviceLimits& limits, const ScoreRoom& room) {
  const int64_t words = (num_documents + 31) / 32;
  if (!room.join || groups_.size() < 2 || room.join_words < words) return absl::OkStatus();
  std::vector<ListJoin> joins = FindWorthwhileJoins(room);
  joins.resize(std::min(joins.size(), static_cast<size_t>(room.join_words / words)));
  if (joins.empty()) return absl::OkStatus();

  std::vector<Group> groups;
  std::vector<QueryGroup> plan_groups;
  std::vector<bool> joined(groups_.size());
  int64_t partials = 0, most_candidates = most_candidates_, union_ordinals = 0;
  for (const ListJoin& join : joins) {
    Group group{nullptr, join.most, union_ordinals, {}, static_cast<int64_t>(groups.size()) * words};
    union_ordinals += join.most;
    for (int32_t g : join.lists) {
      group.queries.insert(group.queries.end(), groups_[g].queries.begin(), groups_[g].queries.end());
      joined[g] = true;
    }
    partials += PartialQueryTiles(group) * join.most;
    most_candidates = std::max(most_candidates, join.most);
    plan_groups.push_back(PlanGroup(group, join.expected));
    groups.push_back(std::move(group));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (joined[g]) continue;
    partials += PartialQueryTiles(groups_[g]) * most_candidates;
    plan_groups.push_back(plan_groups_[g]);
    groups.push_back(groups_[g]);
  }
  // The union is scored in one pass.
  if (partials > room.partials || most_candidates > kMaxPassCandidates) return absl::OkStatus();
  ScorePlan plan;
  // Where it is always joined, not even a short call is streamed.
  MAXSIM_ASSIGN_OR_RETURN(plan,
                          PlanScore(type_, dim_, plan_groups, limits, room.join_always ? 0 : room.document_bytes));
  if (TraitsOf(plan.tile).query_tiles() == 1) return absl::OkStatus();  // would read the union once a query
  const double pace = room.join_always ? 1 : type_ == ScalarType::kI8 ? kUnionPaceI8 : kUnionPace;
  const double reads = pace * EstimatedReads(plan_groups, plan.tile) + JoinReads(room);
  if (reads >= EstimatedReads(plan_groups_, score_plan_.tile)) return absl::OkStatus();

  // The unions' ordinals lie behind the lists'.
  const int64_t first =
      static_cast<int64_t>(AlignUp(static_cast<size_t>(num_ordinals_) * sizeof(uint32_t)) / sizeof(uint32_t));
  for (size_t j = 0; j < joins.size(); ++j) {
    groups[j].ordinals_begin += first;
    for (int32_t g : joins[j].lists) {
      const Group& list = groups_[g];
      joined_lists_.push_back({list.ordinals_begin, list.num_candidates, groups[j].words_begin});
      longest_joined_ = std::max(longest_joined_, list.num_candidates);
    }
  }
  num_union_ordinals_ = union_ordinals;
  words_of_union_ = words;
  num_join_words_ = static_cast<int64_t>(joins.size()) * words;
  most_candidates_ = most_candidates;
  groups_ = std::move(groups);
  plan_groups_ = std::move(plan_groups);
  score_plan_ = plan;
  return absl::OkStatus();
}

absl::Status CallInput::PlanScores(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                                   const DeviceLimits& limits, const ScoreRoom& room) {
  Reset(type, dim);
  queries_ = queries;

  // Results and scores by query.
  int64_t num_scores = 0;
  for (const Query& query : queries) {
    const int64_t num_candidates = NumCandidates(query, num_documents);
    places_.push_back({num_scores, num_candidates});
    AddSelectQuery(query, num_candidates, num_scores);
    num_scores += (num_candidates + kSelectAlignment - 1) / kSelectAlignment * kSelectAlignment;
  }
  FormGroups(num_documents);
  if (groups_.empty()) return absl::OkStatus();
  for (const Group& group : groups_) plan_groups_.push_back(PlanGroup(group, group.num_candidates));
  MAXSIM_ASSIGN_OR_RETURN(score_plan_, PlanScore(type, dim, plan_groups_, limits, room.document_bytes));
  MAXSIM_RETURN_IF_ERROR(JoinLists(num_documents, limits, room));

  pass_candidates_ = std::min(most_candidates_, kMaxPassCandidates);
  if (num_join_words_ == 0) {
    int64_t partial_query_tiles = 0;
    for (const Group& group : groups_) partial_query_tiles += PartialQueryTiles(group);
    if (partial_query_tiles > 0) {
      pass_candidates_ = std::min(pass_candidates_, std::max<int64_t>(room.partials / partial_query_tiles, 1));
    }
  }
  if (IsStream(score_plan_.tile)) query_pitch_ = StreamQueryPitch(query_pitch_);
  PlanSelections(limits);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].words_begin >= 0) AddUnion(groups_[g], plan_groups_[g]);
    AddRowTiles(groups_[g], SharesQueryTiles(plan_groups_[g], score_plan_.tile));
  }
  FinishLayout();
  return absl::OkStatus();
}

void CallInput::AddSelectQuery(const Query& query, int64_t num_candidates, int64_t scores_offset) {
  const int64_t k = std::min<int64_t>(query.top_k, num_candidates);
  results_.push_back({num_results_, k});
  if (k == 0) return;
  std::vector<SelectQuery>& queries = num_candidates > kRankAllCandidates ? select_queries_ : small_selections_;
  queries.push_back({scores_offset, num_candidates, num_results_, 0, static_cast<int32_t>(k), 0, 0, 0});
  num_results_ += k;
  most_candidates_ = std::max(most_candidates_, num_candidates);
}

// How many large ones share the device is known only now.
void CallInput::PlanSelections(const DeviceLimits& limits) {
  num_large_ = static_cast<int>(select_queries_.size());
  for (SelectQuery& query : select_queries_) {
    const SelectPlan plan = PlanSelect(query.num_candidates, query.k, num_large_, limits);
    query.splits = plan.splits;
    query.buckets = plan.buckets;
    query.list_keys = plan.list_keys;
    query.keys_offset = num_keys_;
    num_keys_ += plan.keys();
    most_splits_ = std::max(most_splits_, plan.splits);
  }
  for (const SelectQuery& query : small_selections_) {
    const SelectPlan plan = PlanSelect(query.num_candidates, query.k, 1, limits);
    most_rank_blocks_ = std::max(most_rank_blocks_, plan.rank_blocks);
    select_queries_.push_back(query);
  }
}

// To be called before the group's row tiles are added.
void CallInput::AddUnion(const Group& group, const QueryGroup& plan_group) {
  const int64_t blocks = QueryTilesOf(plan_group, score_plan_.tile);
  const int64_t of_tile = TraitsOf(score_plan_.tile).query_tiles();
  unions_.push_back({group.words_begin, words_of_union_, group.ordinals_begin, static_cast<int32_t>(row_tiles_.size()),
                     static_cast<int32_t>((blocks + of_tile - 1) / of_tile)});
}

// Stacks the query tiles of the group's queries and cuts them into row tiles. Tails come last, where they share query
// tiles.
void CallInput::AddRowTiles(const Group& group, bool share) {
  RowTile tile{};
  rests_.clear();
  for (int32_t i : group.queries) {
    const Query& query = queries_[i];
    const int64_t rows = share ? PackedRows(query.num_tokens) : NumQueryTiles(query.num_tokens) * kQueryTileTokens;
    const int64_t blocks = rows / kQueryTileTokens;
    QueryTileOutput output = OutputOf(group, i);
    for (int64_t block = 0; block < blocks; ++block) {
      AddQueryTile(group, output, tile);
      output.offsets[0] += PartialsStride(group);
    }
    const int32_t whole = static_cast<int32_t>(std::min<int64_t>(blocks * kQueryTileTokens, query.num_tokens));
    if (blocks > 0) row_order_.push_back({&query, 0, whole, blocks * kQueryTileTokens});
    if (rows % kQueryTileTokens > 0) {
      rests_.push_back({{&query, whole, query.num_tokens - whole, rows % kQueryTileTokens}, output});
    }
  }
  for (const int32_t to_partials : {0, 1}) {
    AddSharedQueryTiles(group, 2 * kShortQueryTokens, to_partials, tile);
    AddSharedQueryTiles(group, kShortQueryTokens, to_partials, tile);
  }
  if (tile.num_query_tiles > 0) row_tiles_.push_back(tile);
  num_placed_ += group.num_candidates + kOrderEntries;
}

// Returns the room for partial sums of one query tile.
int64_t CallInput::PartialsStride(const Group& group) const {
  return group.words_begin >= 0 ? group.num_candidates : pass_candidates_;
}

// Returns where the query's first query tile puts its sums, and takes the room that partial sums of all of them need.
QueryTileOutput CallInput::OutputOf(const Group& group, int32_t query) {
  QueryTileOutput output{};
  output.num_queries = 1;
  output.offsets[0] = places_[query].scores_offset;
  const int64_t blocks = NumQueryTiles(queries_[query].num_tokens);
  if (blocks == 1 && group.words_begin < 0) return output;
  const QueryPlace& place = places_[query];
  partial_sums_.push_back({num_partials_, PartialsStride(group), place.scores_offset, place.num_candidates, blocks,
                           place.ordinals_begin, group.words_begin});
  output.to_partials = 1;
  output.offsets[0] = num_partials_;
  num_partials_ += blocks * PartialsStride(group);
  return output;
}

// Adds a query tile, whose rows follow those before.
void CallInput::AddQueryTile(const Group& group, const QueryTileOutput& output, RowTile& tile) {
  if (tile.num_query_tiles == 0) {
    tile.first_row = num_rows_;
    tile.ordinals_begin = group.ordinals_begin;
    tile.num_candidates = group.words_begin >= 0 ? 0 : group.num_candidates;
    tile.order_begin = static_cast<int32_t>(std::min(num_placed_, kMostPlacedCandidates));
  }
  tile.outputs[tile.num_query_tiles++] = output;
  num_rows_ += kQueryTileTokens;
  if (tile.num_query_tiles < TraitsOf(score_plan_.tile).query_tiles()) return;
  row_tiles_.push_back(tile);
  tile = RowTile{};
}

// Adds what is left of the group's queries that takes so many rows and goes to the same place.
void CallInput::AddSharedQueryTiles(const Group& group, int64_t num_rows, int32_t to_partials, RowTile& tile) {
  const int32_t most = static_cast<int32_t>(kQueryTileTokens / num_rows);
  QueryTileOutput output{};
  int32_t count = 0;
  const auto flush = [&] {
    if (count == 0) return;
    row_order_.back().rows += (most - count) * num_rows;
    std::fill(output.offsets + count, output.offsets + kMaxQueriesOfQueryTile, -1);
    output.num_queries = most;
    AddQueryTile(group, output, tile);
    count = 0;
  };
  for (const QueryRest& rest : rests_) {
    if (rest.rows.rows != num_rows || rest.output.to_partials != to_partials) continue;
    output.to_partials = to_partials;
    output.offsets[count++] = rest.output.offsets[0];
    row_order_.push_back(rest.rows);
    if (count == most) flush();
  }
  flush();
}

absl::Status CallInput::PlanMatches(const Query& query, absl::Span<const uint32_t> ordinals, ScalarType type,
                                    int32_t dim, const DeviceLimits& limits) {
  Reset(type, dim);
  weighted_ = false;
  const int64_t num_documents = static_cast<int64_t>(ordinals.size());
  const int64_t blocks = NumQueryTiles(query.num_tokens);
  MAXSIM_ASSIGN_OR_RETURN(score_plan_, PlanAlign(type, dim, blocks, num_documents, limits));
  for (int64_t block = 0; block < blocks; ++block) {
    RowTile tile{};
    tile.first_row = block * kQueryTileTokens;
    tile.ordinals_begin = 0;
    tile.num_candidates = num_documents;
    tile.num_query_tiles = 1;
    row_tiles_.push_back(tile);
  }
  lists_.push_back(ordinals);
  num_ordinals_ = most_candidates_ = pass_candidates_ = num_documents;
  row_order_.push_back({&query, 0, query.num_tokens, blocks * kQueryTileTokens});
  num_rows_ = blocks * kQueryTileTokens;
  FinishLayout();
  return absl::OkStatus();
}

void CallInput::FinishLayout() {
  size_t end = 0;
  const auto place = [&end](int64_t count, size_t element_bytes) {
    const size_t begin = end;
    end = AlignUp(begin + static_cast<size_t>(count) * element_bytes);
    return begin;
  };
  layout_.row_tiles = place(static_cast<int64_t>(row_tiles_.size()), sizeof(RowTile));
  layout_.partial_sums = place(num_partial_sums(), sizeof(PartialSums));
  layout_.select_queries = place(num_select_queries(), sizeof(SelectQuery));
  layout_.row_weights = place(num_rows_, sizeof(float));
  layout_.query_rows = place(num_rows_, static_cast<size_t>(query_pitch_));
  layout_.joined_lists = place(num_joined_lists(), sizeof(JoinedList));
  layout_.unions = place(num_unions(), sizeof(JoinedUnion));
  layout_.ordinals = place(num_ordinals_, sizeof(uint32_t));
  layout_.total = end;
  layout_.union_ordinals = place(num_union_ordinals_, sizeof(uint32_t));
  const bool quantized = type_ == ScalarType::kI8;
  layout_.quantized_rows =
      place(quantized ? num_rows_ : 0, static_cast<size_t>(StreamQueryPitch(DeviceRowBytes(type_, dim_))));
  layout_.factors = place(quantized ? num_rows_ : 0, sizeof(float));
  layout_.device_total = end;
}

KnownPlaces CallInput::Places(int64_t pass_first, int64_t pass_count, int64_t document_tokens) const {
  const RowTile& first = row_tiles_.front();
  const int64_t stride = row_tiles_.size() > 1 ? row_tiles_[1].ordinals_begin - first.ordinals_begin : 0;
  const int64_t count = CandidatesOfPass(first, pass_first, pass_count);
  const int64_t total = count * static_cast<int64_t>(row_tiles_.size());
  int64_t expected = first.ordinals_begin;
  bool regular = first.ordinals_begin >= 0 || stride == 0;
  for (const RowTile& tile : row_tiles_) {
    regular = regular && CandidatesOfPass(tile, pass_first, pass_count) == count && tile.ordinals_begin == expected;
    expected += stride;
  }
  KnownPlaces places{};
  // The kernels divide 32-bit numbers.
  places.regular = regular && total < int64_t{1} << 32 ? static_cast<uint32_t>(count) : 0;
  places.ordinals_begin = first.ordinals_begin;
  places.ordinals_stride = stride;
  places.document_tokens = document_tokens;
  return places;
}

OrderPlan CallInput::Order(int64_t mean_tokens, int64_t longest_tokens, bool always) const {
  // What is ordered is there as a whole, and its size known.
  if (!(IsWide(score_plan_.tile) || IsDeep(score_plan_.tile)) || pass_candidates_ < most_candidates_ ||
      most_candidates_ > kMostOrderedCandidates || num_placed_ > kMostPlacedCandidates || num_unions() > 0) {
    return {};
  }
  int64_t total = 0;
  for (const RowTile& tile : row_tiles_) total += tile.num_candidates;
  return PlanOrder(score_plan_, total, mean_tokens, longest_tokens, always);
}

StreamShares CallInput::Shares(int64_t pass_first, int64_t pass_count, const KnownPlaces& places, int64_t mean_tokens,
                               int64_t spread_tokens, const StreamTuning& tuning) const {
  StreamCandidates candidates{0, places.regular, mean_tokens, spread_tokens};
  for (const RowTile& tile : row_tiles_) candidates.total += CandidatesOfPass(tile, pass_first, pass_count);
  return PlanStreamShares(score_plan_, candidates, tuning);
}

void CallInput::Write(uint8_t* memory) const {
  const auto write = [memory](size_t offset, const auto& elements) {
    if (!elements.empty()) std::memcpy(memory + offset, elements.data(), elements.size() * sizeof(elements[0]));
  };
  write(layout_.row_tiles, row_tiles_);
  write(layout_.partial_sums, partial_sums_);
  write(layout_.select_queries, select_queries_);
  write(layout_.joined_lists, joined_lists_);
  write(layout_.unions, unions_);

  // Rows: packed tokens to padded rows, absent rows zero with weight zero.
  float* weights = reinterpret_cast<float*>(memory + layout_.row_weights);
  uint8_t* rows = memory + layout_.query_rows;
  const size_t token_bytes = static_cast<size_t>(dim_) * SizeOf(QueryType(type_));
  const size_t pitch = static_cast<size_t>(query_pitch_);
  const bool operands = operand_order() && type_ != ScalarType::kI8;
  for (const auto& [query, first_token, num_tokens, num_rows] : row_order_) {
    const uint8_t* tokens = static_cast<const uint8_t*>(query->tokens) + static_cast<size_t>(first_token) * token_bytes;
    const size_t absent = static_cast<size_t>(num_rows - num_tokens);
    if (operands) {
      for (int32_t i = 0; i < num_tokens; i += kQueryTileTokens) {
        WriteOperands(tokens + static_cast<size_t>(i) * token_bytes, num_tokens - i, token_bytes, pitch,
                      rows + static_cast<size_t>(i) * pitch);
      }
    } else {
      for (int32_t i = 0; i < num_tokens; ++i) {
        uint8_t* const row = rows + static_cast<size_t>(i) * pitch;
        std::memcpy(row, tokens + static_cast<size_t>(i) * token_bytes, token_bytes);
        std::memset(row + token_bytes, 0, pitch - token_bytes);
      }
      std::memset(rows + static_cast<size_t>(num_tokens) * pitch, 0, absent * pitch);
    }
    if (query->weights == nullptr || !weighted_) {
      weights = std::fill_n(weights, num_tokens, 1.0f);
    } else {
      weights = std::copy_n(query->weights + first_token, num_tokens, weights);
    }
    weights = std::fill_n(weights, absent, 0.0f);
    rows += static_cast<size_t>(num_rows) * pitch;
  }

  uint8_t* ordinals = memory + layout_.ordinals;
  for (const absl::Span<const uint32_t> list : lists_) {
    std::memcpy(ordinals, list.data(), list.size() * sizeof(uint32_t));
    ordinals += list.size() * sizeof(uint32_t);
  }
}

}  // namespace maxsim::cuda
