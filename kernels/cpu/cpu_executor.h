// Scores calls on the CPU: packs queries, spreads candidates over the backend's threads, selects the best.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/cpu_documents.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/query_stack.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"
#include "kernels/topk.h"

namespace maxsim::cpu {

// 64-byte aligned memory that grows and is kept. Contents are lost when it grows.
class StepBuffer {
 public:
  uint32_t* Reserve(size_t num_steps);
  // Reserves elements of another type of 32 bits.
  template <typename T>
  T* ReserveAs(size_t count) {
    static_assert(sizeof(T) == sizeof(uint32_t));
    return reinterpret_cast<T*>(Reserve(count));
  }

 private:
  struct Free {
    void operator()(uint32_t* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  std::unique_ptr<uint32_t, Free> memory_;
  size_t capacity_ = 0;
};

// Host memory: packed queries (16 MiB, or one query's where that is more) and some 100 KiB a thread for rows and
// maxima, all kept between calls. Selection takes up to 16 * top_k bytes (rounded up to a power of two) for each thread
// and query while a call runs: 64 threads, 64 queries and top_k 10,000 over a large collection come to 1 GiB. Of that,
// 8 KiB for each thread and query are kept. A call that finds no memory fails with RESOURCE_EXHAUSTED and leaves the
// executor usable.
class CpuExecutor final : public Executor {
 public:
  // Both must outlive the executor.
  CpuExecutor(const Isa& isa, ThreadPool& pool);

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override;
  absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                     absl::Span<TokenMatch> matches) override;
  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override;

 private:
  // What one thread works with.
  struct Slot {
    StepBuffer rows;
    StepBuffer partial;  // or the similarities of Align
    StepBuffer maxima;
    StepBuffer terms;                     // a query's maxima as floats
    std::vector<TopKSelector> selectors;  // one a query of the call
    bool used = false;                    // selectors are reset for this call
  };

  // One call's documents in terms of the instruction set.
  struct Shape {
    const DocumentsView& view;
    const Feed& feed;
    size_t num_steps;
    size_t rows_per_block;
    bool in_place;

    // Rows of the largest block, and what scratch is to hold.
    size_t max_rows() const { return rows_per_block + (in_place ? feed.row_multiple : 0); }
  };
  Shape ShapeOf(const DocumentsView& view) const;

  // The kernels for documents whose similarities are of this type: float, or int32_t for I8.
  template <typename Similarity>
  const Kernels<Similarity>& KernelsFor(ScalarType type) const;

  // TopK and Align behind the checks of their arguments. They allocate, so they may throw std::bad_alloc.
  absl::Status ScoreAndSelect(const DocumentsView& view, absl::Span<const Query> queries,
                              absl::Span<std::vector<Scored>> results);
  absl::Status AlignAll(const DocumentsView& view, const Query& query, absl::Span<const uint32_t> ordinals,
                        absl::Span<TokenMatch> matches);

  // Calls work(slot, item) for every item below `num_items`, on several threads where `multiply_adds` in all are worth
  // it. RESOURCE_EXHAUSTED when an item throws std::bad_alloc, which may leave others undone.
  absl::Status ForEachItem(size_t num_items, double multiply_adds,
                           absl::FunctionRef<void(Slot& slot, size_t item)> work);

  // Packs and scores a run of stacks.
  absl::Status ScoreWave(const Shape& shape, absl::Span<const Query> queries, absl::Span<QueryStack> stacks);

  // Makes the slots' selections one for each query.
  absl::Status MergeSelections(absl::Span<std::vector<Scored>> results);

  // Scores candidates `begin` .. `end` of a stack and pushes them to the slot's selectors.
  template <typename Similarity>
  void ScoreCandidates(const Shape& shape, absl::Span<const Query> queries, const QueryStack& stack, size_t begin,
                       size_t end, Slot& slot);

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
