#include "kernels/cuda/call/planning/call_input.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/candidate_mask.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/plan_score.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/select.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {
namespace {

// Counts the query tiles that queries take if their tails share query tiles.
class PackedQueryTiles {
 public:
  // Counts a query of `num_tokens` tokens. `to_partials` is true if its query tiles write partial sums, and false if
  // they write scores. Only tails that write the same share a query tile.
  void Add(int64_t num_tokens, bool to_partials) {
    const int64_t rows = PackedRows(num_tokens);
    whole_ += rows / kQueryTileTokens;
    if (rows % kQueryTileTokens > 0)
      ++parts_[to_partials ? 1 : 0][rows % kQueryTileTokens == kShortQueryTokens ? 0 : 1];
  }
  int64_t count() const {
    int64_t query_tiles = whole_;
    for (const auto& parts : parts_) query_tiles += (parts[0] + 3) / 4 + (parts[1] + 1) / 2;
    return query_tiles;
  }

 private:
  int64_t whole_ = 0;
  // The number of tails (a query's last tokens) that take a part of a query tile, by to_partials and by the number of
  // their rows: 8 or 16.
  int64_t parts_[2][2] = {};
};

// A pass scores `pass_count` candidates of each list, from `pass_first` on. Returns how many candidates of the row tile
// it scores.
int64_t CandidatesOfPass(const RowTile& tile, int64_t pass_first, int64_t pass_count) {
  return std::clamp<int64_t>(tile.num_candidates - pass_first, 0, pass_count);
}

}  // namespace

void CallInput::Reset(ScalarType type, int32_t dim) {
  type_ = type;
  dim_ = dim;
  query_pitch_ = DeviceRowBytes(QueryType(type), dim);
  weighted_ = true;
  groups_.clear();
  score_ranges_.clear();
  row_order_.clear();
  group_shapes_.clear();
  row_tiles_.clear();
  partial_sums_.clear();
  joined_lists_.clear();
  unions_.clear();
  select_queries_.clear();
  small_selections_.clear();
  results_.clear();
  lists_.clear();
  mask_ = {};
  num_rows_ = num_ordinals_ = num_results_ = num_keys_ = num_partials_ = 0;
  num_union_ordinals_ = num_join_words_ = words_of_union_ = longest_joined_ = 0;
  most_candidates_ = pass_candidates_ = num_order_entries_ = 0;
  num_large_ = most_splits_ = most_rank_blocks_ = 0;
}

void CallInput::FormGroups(int64_t num_documents) {
  for (size_t i = 0; i < queries_.size(); ++i) {
    const Query& query = queries_[i];
    const int64_t num_candidates = NumCandidates(query, num_documents);
    if (num_candidates == 0) continue;
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const QueryGroup& other) {
      return other.ordinals == query.ordinals && other.num_candidates == num_candidates;
    });
    if (group == groups_.end()) {
      QueryGroup fresh{query.ordinals, num_candidates, -1, {}};
      if (query.ordinals != nullptr) {
        fresh.ordinals_begin = num_ordinals_;
        num_ordinals_ += num_candidates;
        lists_.emplace_back(query.ordinals, static_cast<size_t>(num_candidates));
      }
      group = groups_.insert(groups_.end(), std::move(fresh));
    }
    group->queries.push_back(static_cast<int32_t>(i));
    score_ranges_[i].ordinals_begin = group->ordinals_begin;
  }
  if (const uint64_t* const mask = SharedMask(queries_, num_documents); mask != nullptr) {
    mask_ = {mask, static_cast<size_t>(MaskWords(num_documents))};
    lists_.clear();
  }
}

QueryGroupShape CallInput::ShapeOf(const QueryGroup& group, int64_t num_candidates) const {
  QueryGroupShape shape{0, num_candidates};
  PackedQueryTiles packed;
  for (int32_t i : group.queries) {
    shape.num_query_tiles += NumQueryTiles(queries_[i].num_tokens);
    packed.Add(queries_[i].num_tokens, GivesPartials(group, queries_[i]));
  }
  shape.packed_query_tiles = packed.count();
  return shape;
}

// Returns whether the kernel writes partial sums for the query's query tiles (32 tokens each). A later kernel then adds
// the sums of a query that has several query tiles. If lists are joined, it picks the sums of the query's own
// candidates.
bool CallInput::GivesPartials(const QueryGroup& group, const Query& query) {
  return query.num_tokens > kQueryTileTokens || group.words_begin >= 0;
}

// Returns the number of query tiles of the group that give partial sums.
int64_t CallInput::PartialQueryTiles(const QueryGroup& group) const {
  int64_t partial_query_tiles = 0;
  for (int32_t i : group.queries) {
    if (GivesPartials(group, queries_[i])) partial_query_tiles += NumQueryTiles(queries_[i].num_tokens);
  }
  return partial_query_tiles;
}

absl::Status CallInput::PlanScores(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                                   const DeviceLimits& limits, const ScoreRoom& room) {
  Reset(type, dim);
  queries_ = queries;

  // Every query gets a place for its scores and results.
  int64_t num_scores = 0;
  for (const Query& query : queries) {
    const int64_t num_candidates = NumCandidates(query, num_documents);
    score_ranges_.push_back({num_scores, num_candidates});
    AddSelectQuery(query, num_candidates, num_scores);
    num_scores += (num_candidates + kSelectAlignment - 1) / kSelectAlignment * kSelectAlignment;
  }
  FormGroups(num_documents);
  if (groups_.empty()) return absl::OkStatus();
  for (const QueryGroup& group : groups_) group_shapes_.push_back(ShapeOf(group, group.num_candidates));
  MAXSIM_ASSIGN_OR_RETURN(score_plan_, PlanScore(type, dim, group_shapes_, limits, room.document_bytes));
  MAXSIM_RETURN_IF_ERROR(JoinLists(num_documents, limits, room));

  pass_candidates_ = std::min(most_candidates_, kMaxPassCandidates);
  if (num_join_words_ == 0) {
    int64_t partial_query_tiles = 0;
    for (const QueryGroup& group : groups_) partial_query_tiles += PartialQueryTiles(group);
    if (partial_query_tiles > 0) {
      pass_candidates_ = std::min(pass_candidates_, std::max<int64_t>(room.partials / partial_query_tiles, 1));
    }
  }
  if (IsStream(score_plan_.tile)) query_pitch_ = StreamQueryPitch(query_pitch_);
  PlanSelections(limits);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].words_begin >= 0) AddUnion(groups_[g], group_shapes_[g]);
    AddRowTiles(groups_[g], SharesQueryTiles(group_shapes_[g], score_plan_.tile));
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

// Plans each query's selection of the best k. Must be called when all queries are known, because a plan depends on how
// many large selections share the device.
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

// Adds the union of the group's lists, which are scored together (a join). Must be called before the group's row tiles
// are added, because the union notes the number of the first of them.
void CallInput::AddUnion(const QueryGroup& group, const QueryGroupShape& shape) {
  const int64_t query_tiles = QueryTilesOf(shape, score_plan_.tile);
  const int64_t of_tile = TraitsOf(score_plan_.tile).query_tiles();
  unions_.push_back({group.words_begin, words_of_union_, group.ordinals_begin, static_cast<int32_t>(row_tiles_.size()),
                     static_cast<int32_t>((query_tiles + of_tile - 1) / of_tile)});
}

// Stacks the query tiles of the group's queries and cuts them into row tiles. If tails share query tiles (`share`), the
// tails come last.
void CallInput::AddRowTiles(const QueryGroup& group, bool share) {
  RowTile tile{};
  tails_.clear();
  for (int32_t i : group.queries) {
    const Query& query = queries_[i];
    const int64_t rows = share ? PackedRows(query.num_tokens) : NumQueryTiles(query.num_tokens) * kQueryTileTokens;
    const int64_t query_tiles = rows / kQueryTileTokens;
    QueryTileOutput output = OutputOf(group, i);
    for (int64_t t = 0; t < query_tiles; ++t) {
      AddQueryTile(group, output, tile);
      output.offsets[0] += PartialsStride(group);
    }
    const int32_t whole = static_cast<int32_t>(std::min<int64_t>(query_tiles * kQueryTileTokens, query.num_tokens));
    if (query_tiles > 0) row_order_.push_back({&query, 0, whole, query_tiles * kQueryTileTokens});
    if (rows % kQueryTileTokens > 0) {
      tails_.push_back({{&query, whole, query.num_tokens - whole, rows % kQueryTileTokens}, output});
    }
  }
  for (const int32_t to_partials : {0, 1}) {
    AddSharedQueryTiles(group, 2 * kShortQueryTokens, to_partials, tile);
    AddSharedQueryTiles(group, kShortQueryTokens, to_partials, tile);
  }
  if (tile.num_query_tiles > 0) row_tiles_.push_back(tile);
  num_order_entries_ += group.num_candidates + kOrderEntries;
}

// Returns how many partial sums are reserved for each query tile (32 query tokens) of the group: one per candidate that
// a launch scores or, if lists are joined, one per document of their union.
int64_t CallInput::PartialsStride(const QueryGroup& group) const {
  return group.words_begin >= 0 ? group.num_candidates : pass_candidates_;
}

// Returns where the kernel writes the sums of the query's first query tile (32 tokens), and reserves memory for the
// partial sums of all query tiles of the query.
QueryTileOutput CallInput::OutputOf(const QueryGroup& group, int32_t query) {
  QueryTileOutput output{};
  output.num_queries = 1;
  output.offsets[0] = score_ranges_[query].scores_offset;
  const int64_t query_tiles = NumQueryTiles(queries_[query].num_tokens);
  if (query_tiles == 1 && group.words_begin < 0) return output;
  const ScoreRange& range = score_ranges_[query];
  partial_sums_.push_back({num_partials_, PartialsStride(group), range.scores_offset, range.num_candidates, query_tiles,
                           range.ordinals_begin, group.words_begin});
  output.to_partials = 1;
  output.offsets[0] = num_partials_;
  num_partials_ += query_tiles * PartialsStride(group);
  return output;
}

// Adds a query tile after the others in `tile`, a row tile (query tiles that one thread block keeps). If `tile` is then
// full, moves it to row_tiles_.
void CallInput::AddQueryTile(const QueryGroup& group, const QueryTileOutput& output, RowTile& tile) {
  if (tile.num_query_tiles == 0) {
    tile.first_row = num_rows_;
    tile.ordinals_begin = group.ordinals_begin;
    tile.num_candidates = group.words_begin >= 0 ? 0 : group.num_candidates;
    tile.order_begin = static_cast<int32_t>(std::min(num_order_entries_, kMaxPlacedCandidates));
  }
  tile.outputs[tile.num_query_tiles++] = output;
  num_rows_ += kQueryTileTokens;
  if (tile.num_query_tiles < TraitsOf(score_plan_.tile).query_tiles()) return;
  row_tiles_.push_back(tile);
  tile = RowTile{};
}

// Adds the query tiles that tails of the group share. The function takes only tails that need `num_rows` rows, and
// either only those that give partial sums (if `to_partials`) or only those that give scores.
void CallInput::AddSharedQueryTiles(const QueryGroup& group, int64_t num_rows, int32_t to_partials, RowTile& tile) {
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
  for (const QueryTail& tail : tails_) {
    if (tail.rows.rows != num_rows || tail.output.to_partials != to_partials) continue;
    output.to_partials = to_partials;
    output.offsets[count++] = tail.output.offsets[0];
    row_order_.push_back(tail.rows);
    if (count == most) flush();
  }
  flush();
}

absl::Status CallInput::PlanMatches(const Query& query, absl::Span<const uint32_t> ordinals, ScalarType type,
                                    int32_t dim, const DeviceLimits& limits) {
  Reset(type, dim);
  weighted_ = false;
  const int64_t num_documents = static_cast<int64_t>(ordinals.size());
  const int64_t query_tiles = NumQueryTiles(query.num_tokens);
  MAXSIM_ASSIGN_OR_RETURN(score_plan_, PlanAlign(type, dim, query_tiles, num_documents, limits));
  for (int64_t t = 0; t < query_tiles; ++t) {
    RowTile tile{};
    tile.first_row = t * kQueryTileTokens;
    tile.ordinals_begin = 0;
    tile.num_candidates = num_documents;
    tile.num_query_tiles = 1;
    row_tiles_.push_back(tile);
  }
  lists_.push_back(ordinals);
  num_ordinals_ = most_candidates_ = pass_candidates_ = num_documents;
  row_order_.push_back({&query, 0, query.num_tokens, query_tiles * kQueryTileTokens});
  num_rows_ = query_tiles * kQueryTileTokens;
  FinishLayout();
  return absl::OkStatus();
}

ListPattern CallInput::Pattern(int64_t pass_first, int64_t pass_count, int64_t document_tokens) const {
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
  ListPattern pattern{};
  // The kernels divide 32-bit numbers.
  pattern.regular = regular && total < int64_t{1} << 32 ? static_cast<uint32_t>(count) : 0;
  pattern.ordinals_begin = first.ordinals_begin;
  pattern.ordinals_stride = stride;
  pattern.document_tokens = document_tokens;
  return pattern;
}

OrderPlan CallInput::Order(int64_t mean_tokens, int64_t longest_tokens, bool always) const {
  // Candidates are ordered only if one pass has all of them and their number is small enough.
  if (!(IsWide(score_plan_.tile) || IsDeep(score_plan_.tile)) || pass_candidates_ < most_candidates_ ||
      most_candidates_ > kMaxOrderedCandidates || num_order_entries_ > kMaxPlacedCandidates || num_unions() > 0) {
    return {};
  }
  int64_t total = 0;
  for (const RowTile& tile : row_tiles_) total += tile.num_candidates;
  return PlanOrder(score_plan_, total, mean_tokens, longest_tokens, always);
}

StreamShares CallInput::Shares(int64_t pass_first, int64_t pass_count, const ListPattern& pattern, int64_t mean_tokens,
                               int64_t spread_tokens, const StreamTuning& tuning) const {
  StreamCandidates candidates{0, pattern.regular, mean_tokens, spread_tokens};
  for (const RowTile& tile : row_tiles_) candidates.total += CandidatesOfPass(tile, pass_first, pass_count);
  return PlanStreamShares(score_plan_, candidates, tuning);
}

}  // namespace maxsim::cuda
