// The input of one launch sequence, laid out in one buffer, so that one copy brings it to the device: row tiles, tables
// of the queries, weights, query rows, and candidate lists or the bitmap of one list. After the input, the device's
// buffer has room for the list of a bitmap, for the unions of joined lists and for the rotated queries of quantised
// documents. This code makes no CUDA calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/cuda/candidates/expand_mask.h"
#include "kernels/cuda/score/hopper_common/params.h"
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

// The executor's room for the scores of a slice, and whether lists may be joined.
struct ScoreRoom {
  int64_t partials = 0;    // number of partial sums that fit
  int64_t join_words = 0;  // number of JoinWord elements that fit
  bool join = false;       // whether lists may be joined
  // Whether lists are joined even if joining takes longer than it saves. For tests and measurements.
  bool join_always = false;
  // The mean bytes of a document's rows. The cost of joining, the tiling of a short call and the grid of a stream
  // kernel depend on it (PlanScore).
  double document_bytes = 0;
};

// InputLayout holds the byte offsets of the parts of the input. Every offset is a multiple of kPartAlignment.
struct InputLayout {
  size_t row_tiles = 0;
  size_t partial_sums = 0;
  size_t select_queries = 0;
  size_t row_weights = 0;
  size_t query_rows = 0;
  size_t joined_lists = 0;
  size_t unions = 0;
  size_t mask = 0;        // CallInput::mask_words() words of a bitmap
  size_t mask_ranks = 0;  // number of documents before each group of kRankWords words
  // The lists. They are copied to the device, unless a bitmap is: then `ordinals` is not below `total`.
  size_t ordinals = 0;
  // The parts above are copied to the device.
  size_t total = 0;
  size_t union_ordinals = 0;
  // These parts have elements for quantised documents only.
  size_t quantized_rows = 0;
  size_t factors = 0;
  size_t device_total = 0;
};

// CallInput plans one slice of a call and writes its input. A CallInput is reused from call to call, so that its
// vectors keep their memory. Not thread-safe.
class CallInput {
 public:
  // Forms groups of `queries` that have the same candidates, and plans how to score them. `queries` must fit one slice.
  // A query without candidates takes no part, and gets no results.
  absl::Status PlanScores(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                          const DeviceLimits& limits, const ScoreRoom& room);

  // Plans a call that finds, in each of the documents `ordinals`, the document token that each token of one query
  // matches (TokenMatch).
  absl::Status PlanMatches(const Query& query, absl::Span<const uint32_t> ordinals, ScalarType type, int32_t dim,
                           const DeviceLimits& limits);

  // Returns what the Hopper kernels need to know about the pass of `pass_count` candidates from `pass_first` on.
  // `document_tokens` is the length of every document, or 0 if lengths differ or are unknown.
  ListPattern Pattern(int64_t pass_first, int64_t pass_count, int64_t document_tokens) const;

  // Divides `pass_count` candidates from `pass_first` on among the thread blocks of a stream kernel. `pattern` is what
  // Pattern returns for this pass; StreamCandidates says what `mean_tokens` and `spread_tokens` are.
  StreamShares Shares(int64_t pass_first, int64_t pass_count, const ListPattern& pattern, int64_t mean_tokens,
                      int64_t spread_tokens, const StreamTuning& tuning) const;

  // Returns whether and how the candidates are to be ordered (CandidateOrder), as PlanOrder decides. If they are, a
  // single pass scores all candidates.
  OrderPlan Order(int64_t mean_tokens, int64_t longest_tokens, bool always) const;

  // Writes the input to `memory`, which has layout().total bytes. Reads the queries that the plan was made from, which
  // must still be valid.
  void Write(uint8_t* memory) const;

  int64_t num_rows() const { return num_rows_; }
  // Returns whether the query rows that are scored lie in the order of StreamQueryOffset
  // (kernels/plan/hopper_stream_shape.h).
  bool operand_order() const { return IsStream(score_plan_.tile); }
  int64_t num_ordinals() const { return num_ordinals_; }  // ordinals of all lists, without those of unions
  // Returns the words of the bitmap that is copied instead of the slice's only list; 0 if lists are copied.
  int64_t mask_words() const { return static_cast<int64_t>(mask_.size()); }
  const ScorePlan& score_plan() const { return score_plan_; }
  const InputLayout& layout() const { return layout_; }
  bool empty() const { return row_tiles_.empty(); }
  int num_partial_sums() const { return static_cast<int>(partial_sums_.size()); }
  int num_joined_lists() const { return static_cast<int>(joined_lists_.size()); }
  int num_unions() const { return static_cast<int>(unions_.size()); }
  int64_t num_join_words() const { return num_join_words_; }
  int64_t words_of_union() const { return words_of_union_; }  // JoinWord elements of a union; each is for 32 documents
  int64_t longest_joined_list() const { return longest_joined_; }
  int num_select_queries() const { return static_cast<int>(select_queries_.size()); }
  // Returns the first of the select queries; there is one unless empty().
  const SelectQuery& first_selection() const { return select_queries_.front(); }
  // Returns the number of large selections, which come first among the select queries.
  int num_large_selections() const { return num_large_; }
  int32_t most_splits() const { return most_splits_; }            // splits of a large selection, at most
  int32_t most_rank_blocks() const { return most_rank_blocks_; }  // thread blocks of a small selection, at most
  int64_t num_select_keys() const { return num_keys_; }
  int64_t num_results() const { return num_results_; }
  int64_t most_candidates() const { return most_candidates_; }
  // Returns the number of candidates in a pass: as many as the partial sums have room for.
  int64_t pass_candidates() const { return pass_candidates_; }

  // The results of one query of the slice are `count` results from `offset` on.
  struct ResultRange {
    int64_t offset = 0;
    int64_t count = 0;
  };
  // Returns the result ranges, by query.
  const std::vector<ResultRange>& results() const { return results_; }

 private:
  // A query group: queries that score the same candidates, or, if their lists are joined, the documents of the union.
  struct QueryGroup {
    const uint32_t* ordinals;
    // The number of candidates. For joined lists, an upper bound of the size of their union.
    int64_t num_candidates;
    int64_t ordinals_begin;        // where the candidates' ordinals begin; -1: all documents
    std::vector<int32_t> queries;  // indices into queries_
    int64_t words_begin = -1;      // where the JoinWord elements of joined lists begin; -1: the lists are not joined
  };

  // ScoreRange says where the scores and the candidate list of a query lie.
  struct ScoreRange {
    int64_t scores_offset;
    int64_t num_candidates;
    int64_t ordinals_begin = -1;  // -1: all documents
  };

  // QueryRows are rows of consecutive tokens of a query, followed by absent rows.
  struct QueryRows {
    const Query* query;
    int32_t first_token;
    int32_t num_tokens;
    int64_t rows;  // num_tokens and the absent rows
  };

  // QueryTail is the tail of a query: its tokens beyond the last whole query tile.
  struct QueryTail {
    QueryRows rows;
    QueryTileOutput output;  // where the sums of its query tile go
  };

  void Reset(ScalarType type, int32_t dim);
  void FormGroups(int64_t num_documents);
  QueryGroupShape ShapeOf(const QueryGroup& group, int64_t num_candidates) const;
  static double JoinReads(const ScoreRoom& room);
  std::vector<ListJoin> FindWorthwhileJoins(const ScoreRoom& room) const;
  absl::Status JoinLists(int64_t num_documents, const DeviceLimits& limits, const ScoreRoom& room);
  static bool GivesPartials(const QueryGroup& group, const Query& query);
  int64_t PartialQueryTiles(const QueryGroup& group) const;
  int64_t PartialsStride(const QueryGroup& group) const;
  QueryTileOutput OutputOf(const QueryGroup& group, int32_t query);
  void AddUnion(const QueryGroup& group, const QueryGroupShape& shape);
  void AddRowTiles(const QueryGroup& group, bool share);
  void AddQueryTile(const QueryGroup& group, const QueryTileOutput& output, RowTile& tile);
  void AddSharedQueryTiles(const QueryGroup& group, int64_t num_rows, int32_t to_partials, RowTile& tile);
  void AddSelectQuery(const Query& query, int64_t num_candidates, int64_t scores_offset);
  void PlanSelections(const DeviceLimits& limits);
  void FinishLayout();

  ScalarType type_ = ScalarType::kF16;  // type of the documents
  int32_t dim_ = 0;
  int64_t query_pitch_ = 0;  // bytes of a query row in the input
  bool weighted_ = true;     // whether the queries' weights count; else all weights are 1
  absl::Span<const Query> queries_;
  std::vector<QueryGroup> groups_;
  std::vector<ScoreRange> score_ranges_;       // by query
  std::vector<QueryRows> row_order_;           // the rows that are scored, in their order
  std::vector<QueryTail> tails_;               // tails of the group whose row tiles are being added
  std::vector<QueryGroupShape> group_shapes_;  // shapes of groups_
  std::vector<RowTile> row_tiles_;
  std::vector<PartialSums> partial_sums_;
  std::vector<JoinedList> joined_lists_;
  std::vector<JoinedUnion> unions_;
  std::vector<SelectQuery> select_queries_;    // large ones first
  std::vector<SelectQuery> small_selections_;  // small selections, until they follow the large ones
  std::vector<ResultRange> results_;
  std::vector<absl::Span<const uint32_t>> lists_;  // candidate lists in the order of ordinals_begin
  absl::Span<const uint64_t> mask_;                // the bitmap that is copied instead of the only list
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
  int64_t num_order_entries_ = 0;  // elements of a CandidateOrder that are taken
  int num_large_ = 0;
  int32_t most_splits_ = 0;
  int32_t most_rank_blocks_ = 0;
};

}  // namespace maxsim::cuda
