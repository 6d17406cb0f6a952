// The scan of codes on a CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/scan.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/pack.h"
#include "kernels/cpu/loops/step_buffer.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"
#include "kernels/topk.h"

namespace maxsim {

// Runs scans one after another, with its own workspace. Not thread-safe. Results have the same bits with any
// instruction set and number of threads.
class CodeScanner {
 public:
  // `isa` is one of cpu::AvailableIsas(). `pool` must outlive this object.
  CodeScanner(const cpu::Isa& isa, ThreadPool& pool) : isa_(isa), pool_(pool), slots_(pool.parallelism()) {}

  // Finds the best num_results documents of each query, in rank order. Scored::score is the estimate or the upper
  // bound. Scored::position is the index into the query's `ordinals`, or the document's ordinal if that is null.
  // `codes` must have passed ValidateCodes. `results` has one element per query and is overwritten. INVALID_ARGUMENT
  // names the field, the value and the limit. Returns RESOURCE_EXHAUSTED if there is too little memory.
  absl::Status Scan(const CodesView& codes, absl::Span<const ScanQuery> queries,
                    absl::Span<std::vector<Scored>> results);

 private:
  // Queries that scan the same planes of the same candidates, and so are multiplied with the same expanded rows.
  struct Stack {
    int planes = 1;
    const uint32_t* ordinals = nullptr;
    size_t num_candidates = 0;
    std::vector<size_t> query_indices;
    std::vector<size_t> first_lanes;  // of each query
    size_t num_tokens = 0;
    cpu::PanelLayout layout;
    const uint32_t* panels = nullptr;
    std::vector<int32_t> offsets;  // ProductOffset of each lane; 0 for lanes without a token
  };

  // The workspace of one thread.
  struct Slot {
    cpu::StepBuffer rows;
    cpu::StepBuffer columns;
    cpu::StepBuffer products;
    cpu::StepBuffer maxima;
    std::vector<int64_t> scaled_maxima;
    std::vector<TopKSelector> selectors;  // one for each query
    bool used = false;
  };

  std::vector<Stack> StackQueries(const CodesView& codes, absl::Span<const ScanQuery> queries) const;
  void PackStack(absl::Span<const ScanQuery> queries, Stack* stack);
  absl::Status ScanStack(const CodesView& codes, absl::Span<const ScanQuery> queries, const Stack& stack);
  void ScanCandidates(const CodesView& codes, absl::Span<const ScanQuery> queries, const Stack& stack, size_t begin,
                      size_t end, Slot& slot) const;
  // For each lane (query token) of the stack, finds the maximum of <Q, L> * factor over the tokens of a document.
  // Prefetches the codes of `next_document`.
  void FindMaxima(const CodesView& codes, const Stack& stack, int64_t document, int64_t next_document,
                  Slot& slot) const;
  absl::Status ForEachItem(size_t num_items, absl::FunctionRef<void(Slot& slot, size_t item)> work);

  const cpu::Isa& isa_;
  ThreadPool& pool_;
  std::vector<Slot> slots_;
  cpu::StepBuffer panels_;
};

}  // namespace maxsim
