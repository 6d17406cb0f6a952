// What one launch sequence needs from the host, laid out in one buffer, so that one copy brings it over: row
// tiles, tables of the queries, weights, query rows and candidate lists. Behind it the device has room for what it
// makes of joined lists and of the queries of quantised documents. Plain host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/score/score_params.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/maxsim.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/list_join.h"
#include "kernels/plan/order.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/select.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

// Capacities of an executor's workspace. Calls with more than that in one of them are cut into slices of whole queries;
// every query within the contract's limits fits by itself.
struct SliceCapacity {
  int64_t queries = 0;
  int64_t rows = 0;         // query rows, padded to query tiles
  int64_t query_bytes = 0;  // of those rows as they are copied, in QueryType
  int64_t candidates = 0;
  int64_t scores = 0;               // candidates, each query's from a multiple of kSelectAlignment on
  int64_t results = 0;              // sum of min(k, candidates)
  int64_t partial_query_tiles = 0;  // query tiles of queries that have several

  // Capacity for the calls that `options` allow.
  static SliceCapacity For(const ExecutorOptions& options);

  // Bytes of the largest input, and of that with the unions of joined lists and the quantised queries.
  size_t InputBytes() const;
  size_t DeviceBytes() const;
};

// What a slice's scores may be made with.
struct ScoreRoom {
  int64_t partials = 0;      // sums of query tiles
  int64_t join_words = 0;    // JoinWords
  bool join = false;         // lists may be joined ...
  bool join_always = false;  // ... even where that takes longer than it saves; for tests and measurements
  // The bytes of a document's rows, on average. What joining takes, the tiling of a short call and the grid of a stream
  // kernel depend on it (PlanScore).
  double document_bytes = 0;
};

// Number of candidates of a query among `num_documents` documents.
inline int64_t NumCandidates(const Query& query, int64_t num_documents) {
  return query.ordinals == nullptr ? num_documents : query.num_candidates;
}

// How many of `queries`, from the first on, fit one slice: at least 1.
size_t QueriesOfSlice(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                      const SliceCapacity& capacity);

// Offsets of the parts of the input, in bytes, each a multiple of 256.
struct InputLayout {
  size_t row_tiles = 0;
  size_t partial_sums = 0;
  size_t select_queries = 0;
  size_t row_weights = 0;
  size_t query_rows = 0;
  size_t joined_lists = 0;
  size_t unions = 0;
  size_t ordinals = 0;
  size_t total = 0;  // end of what is copied
  size_t union_ordinals = 0;
  // For quantised documents:
  size_t quantized_rows = 0;
  size_t factors = 0;
  size_t device_total = 0;
};

// One slice, planned. Reused from call to call, so that its vectors keep their memory.
class CallInput {
 public:
  // Groups and plans the queries, all of one slice. Queries without candidates take no part.
  absl::Status PlanScores(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                          const DeviceLimits& limits, const ScoreRoom& room);

  // Plans the matches of one query in the documents `ordinals`.
  absl::Status PlanMatches(const Query& query, absl::Span<const uint32_t> ordinals, ScalarType type, int32_t dim,
                           const DeviceLimits& limits);

  // What the Hopper kernels are told of the pass over candidates pass_first .. pass_first + pass_count.
  // `document_tokens` of every document, or 0.
  KnownPlaces Places(int64_t pass_first, int64_t pass_count, int64_t document_tokens) const;

  // How that pass is shared out to a stream kernel. `places` is what Places says of it; `mean_tokens` and
  // `spread_tokens` as in StreamCandidates.
  StreamShares Shares(int64_t pass_first, int64_t pass_count, const KnownPlaces& places, int64_t mean_tokens,
                      int64_t spread_tokens, const StreamTuning& tuning) const;

  // Whether and how the candidates are to be ordered (CandidateOrder), as PlanOrder says. If so, one pass scores all.
  OrderPlan Order(int64_t mean_tokens, int64_t longest_tokens, bool always) const;

  // Writes the input to `memory` (layout().total bytes). Borrows what the plan was made from.
  void Write(uint8_t* memory) const;

  int64_t num_rows() const { return num_rows_; }
  // Whether the query rows that are scored lie in the order of StreamQueryOffset
  // (kernels/cuda/score/hopper_stream/config.h).
  bool operand_order() const { return IsStream(score_plan_.tile); }
  int64_t num_ordinals() const { return num_ordinals_; }  // of all lists; not those of unions
  const ScorePlan& score_plan() const { return score_plan_; }
  const InputLayout& layout() const { return layout_; }
  bool empty() const { return row_tiles_.empty(); }
  int num_partial_sums() const { return static_cast<int>(partial_sums_.size()); }
  int num_joined_lists() const { return static_cast<int>(joined_lists_.size()); }
  int num_unions() const { return static_cast<int>(unions_.size()); }
  int64_t num_join_words() const { return num_join_words_; }
  int64_t words_of_union() const { return words_of_union_; }  // 32 documents each
  int64_t longest_joined_list() const { return longest_joined_; }
  int num_select_queries() const { return static_cast<int>(select_queries_.size()); }
  const SelectQuery& first_selection() const { return select_queries_.front(); }  // there is one unless empty()
  int num_large_selections() const { return num_large_; }                         // the first of the select queries
  int32_t most_splits() const { return most_splits_; }                            // of a large selection
  int32_t most_rank_blocks() const { return most_rank_blocks_; }                  // of a small one
  int64_t num_select_keys() const { return num_keys_; }
  int64_t num_results() const { return num_results_; }
  int64_t most_candidates() const { return most_candidates_; }
  int64_t pass_candidates() const {
    return pass_candidates_;
  }  // candidates of a pass: what the partial sums have room for

  // The results of query i of the slice: `count` of them from `offset` on.
  struct ResultRange {
    int64_t offset = 0;
    int64_t count = 0;
  };
  const std::vector<ResultRange>& results() const { return results_; }

 private:
  // Queries that are scored against the same candidates.
  struct Group {
    const uint32_t* ordinals;
    int64_t num_candidates;  // of joined lists: that they name at most
    int64_t ordinals_begin;  // -1: all documents
    std::vector<int32_t> queries;
    int64_t words_begin = -1;  // of joined lists
  };

  // What a query takes part with.
  struct QueryPlace {
    int64_t scores_offset;
    int64_t num_candidates;
    int64_t ordinals_begin = -1;
  };

  // Rows of a query's tokens, and absent ones behind them.
  struct QueryRows {
    const Query* query;
    int32_t first_token;
    int32_t num_tokens;
    int64_t rows;
  };

  // The tail of a query: its tokens behind the last whole query tile.
  struct QueryRest {
    QueryRows rows;
    QueryTileOutput output;  // where its sums go
  };

  void Reset(ScalarType type, int32_t dim);
  void FormGroups(int64_t num_documents);
  QueryGroup PlanGroup(const Group& group, int64_t num_candidates) const;
  static double JoinReads(const ScoreRoom& room);
  std::vector<ListJoin> FindWorthwhileJoins(const ScoreRoom& room) const;
  absl::Status JoinLists(int64_t num_documents, const DeviceLimits& limits, const ScoreRoom& room);
  static bool GivesPartials(const Group& group, const Query& query);
  int64_t PartialQueryTiles(const Group& group) const;
  int64_t PartialsStride(const Group& group) const;
  QueryTileOutput OutputOf(const Group& group, int32_t query);
  void AddUnion(const Group& group, const QueryGroup& plan_group);
  void AddRowTiles(const Group& group, bool share);
  void AddQueryTile(const Group& group, const QueryTileOutput& output, RowTile& tile);
  void AddSharedQueryTiles(const Group& group, int64_t num_rows, int32_t to_partials, RowTile& tile);
  void AddSelectQuery(const Query& query, int64_t num_candidates, int64_t scores_offset);
  void PlanSelections(const DeviceLimits& limits);
  void FinishLayout();

  ScalarType type_ = ScalarType::kF16;  // of the documents
  int32_t dim_ = 0;
  int64_t query_pitch_ = 0;  // bytes of a query row as it is copied
  bool weighted_ = true;     // the queries' weights count
  absl::Span<const Query> queries_;
  std::vector<Group> groups_;
  std::vector<QueryPlace> places_;       // by query
  std::vector<QueryRows> row_order_;     // what is scored, in the order of the rows
  std::vector<QueryRest> rests_;         // of the group whose row tiles are added
  std::vector<QueryGroup> plan_groups_;  // of groups_
  std::vector<RowTile> row_tiles_;
  std::vector<PartialSums> partial_sums_;
  std::vector<JoinedList> joined_lists_;
  std::vector<JoinedUnion> unions_;
  std::vector<SelectQuery> select_queries_;    // large ones first
  std::vector<SelectQuery> small_selections_;  // until they are behind those
  std::vector<ResultRange> results_;
  std::vector<absl::Span<const uint32_t>> lists_;  // candidate lists in the order of ordinals_begin
  ScorePlan score_plan_;
  InputLayout layout_;
  int64_t num_rows_ = 0;
  int64_t num_ordinals_ = 0;
  int64_t num_results_ = 0;
  int64_t num_keys_ = 0;
  int64_t num_union_ordinals_ = 0;
  int64_t num_join_words_ = 0;
  int64_t words_of_union_ = 0;
  int64_t longest_joined_ = 0;
  int64_t num_partials_ = 0;
  int64_t most_candidates_ = 0;
  int64_t pass_candidates_ = 0;
  int64_t num_placed_ = 0;  // elements of a CandidateOrder
  int num_large_ = 0;
  int32_t most_splits_ = 0;
  int32_t most_rank_blocks_ = 0;
};

}  // namespace maxsim::cuda
