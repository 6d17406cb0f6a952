// Scores documents on the CPU: packs queries, spreads candidates over the backend's threads, and selects the best.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/cpu_documents.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/row_block.h"
#include "kernels/cpu/loops/step_buffer.h"
#include "kernels/cpu/query_stack.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"
#include "kernels/topk.h"

namespace maxsim::cpu {

// An executor keeps host memory for packed queries (16 MiB, or the size of one query if that is more), about 100 KiB
// per thread for rows and maxima, and 8 KiB per thread and query. During a call, selecting the best takes up to 16 *
// top_k bytes (rounded up to a power of two) per thread and query: 1 GiB with 64 threads, 64 queries and top_k 10,000.
// If there is too little memory, the call fails with RESOURCE_EXHAUSTED, and the executor stays usable.
class CpuExecutor final : public Executor {
 public:
  // `isa` and `pool` must outlive the executor.
  CpuExecutor(const Isa& isa, ThreadPool& pool);

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override;
  absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                     absl::Span<TokenMatch> matches) override;
  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override;

 private:
  // The working memory of one thread.
  struct Slot {
    StepBuffer rows;
    StepBuffer decoded;  // rows of residual codes in FP32
    StepBuffer partial;  // sums that a kernel keeps between column blocks; in Align the similarities
    StepBuffer maxima;
    StepBuffer terms;                     // a query's maxima as floats
    std::vector<TopKSelector> selectors;  // [queries of the call]
    bool used = false;                    // whether the selectors are reset for this call
  };

  // How the kernels read the documents of one call.
  struct Shape {
    const DocumentsView& view;
    const ResidualDecoder* decoder;  // of residual codes; else null
    ScalarType row_type;             // type of the rows that kernels read: FP32 for residual codes
    const Feed& feed;
    size_t num_steps;
    size_t rows_per_block;
    bool in_place;

    // Returns the maximum number of rows in a block. Scratch memory must have room for it.
    size_t max_rows() const { return rows_per_block + (in_place ? feed.row_multiple : 0); }
  };
  Shape ShapeOf(const CpuDocuments& documents) const;

  // Returns rows `token` .. `token` + `count` - 1 as a block: in place, or copied into the slot's memory.
  static RowBlock MakeBlock(const Shape& shape, int64_t token, size_t count, Slot& slot);

  // Returns the kernels for rows of `type`. Similarity must be int32_t for I8 and float for other types.
  template <typename Similarity>
  const Kernels<Similarity>& KernelsFor(ScalarType type) const;

  // Do the work of TopK and Align after their arguments were checked. May throw std::bad_alloc.
  absl::Status ScoreAndSelect(const CpuDocuments& documents, absl::Span<const Query> queries,
                              absl::Span<std::vector<Scored>> results);
  absl::Status AlignAll(const CpuDocuments& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                        absl::Span<TokenMatch> matches);

  // Calls work(slot, item) for every item below `num_items`. Uses several threads if `multiply_adds`, the total work,
  // is large enough. Returns RESOURCE_EXHAUSTED if an item throws std::bad_alloc; some items are then not done.
  absl::Status ForEachItem(size_t num_items, double multiply_adds,
                           absl::FunctionRef<void(Slot& slot, size_t item)> work);

  // Packs and scores stacks whose packed queries fit into the buffer together.
  absl::Status ScoreWave(const Shape& shape, absl::Span<const Query> queries, absl::Span<QueryStack> stacks);

  // Merges the selections of all slots (threads) into one result per query.
  absl::Status MergeSelections(absl::Span<std::vector<Scored>> results);

  // Scores candidates `begin` .. `end` - 1 of a stack and pushes the scores to the slot's selectors.
  template <typename Similarity>
  void ScoreCandidates(const Shape& shape, absl::Span<const Query> queries, const QueryStack& stack, size_t begin,
                       size_t end, Slot& slot);

  // Finds the best-matching document token, and its similarity, for each token of the stack's query. Writes to
  // `matches`: [tokens of the query].
  template <typename Similarity>
  void AlignDocument(const Shape& shape, const QueryStack& stack, uint32_t ordinal, Slot& slot, TokenMatch* matches);

  const Isa& isa_;
  ThreadPool& pool_;
  std::vector<Slot> slots_;
  StepBuffer panels_;
  PackScratch packing_;
  std::unique_ptr<CpuDocuments> staged_;
};

}  // namespace maxsim::cpu
