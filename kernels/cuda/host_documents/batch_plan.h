// Plans how host documents are copied to the device, in document batches of bounded size: each batch is copied while
// the batch before it is scored. This code makes no CUDA calls.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// BatchCapacity says what a batch has room for.
struct BatchCapacity {
  int64_t rows = 0;  // rows, which are tokens
  // The most documents of a batch of consecutive documents. A batch of listed documents takes half as many, because it
  // has two offsets per document.
  int64_t documents = 0;
};

// Returns the end of the documents from `begin` on that fit one batch: at least begin + 1, at most `num_documents`.
// Every document must fit a batch by itself. `offsets` is [num_documents + 1], in rows.
int64_t EndOfBatch(const int64_t* offsets, int64_t begin, int64_t num_documents, const BatchCapacity& capacity);

// A document of a batch, and where its rows are in it.
struct BatchSlot {
  uint32_t document = 0;
  int64_t first_row = 0;  // counted from the begin of the pass's rows
};

// The candidates [first, end) of every list, whose documents fit one batch together. A document that several candidates
// name has one slot.
struct ListPass {
  int64_t first = 0;
  int64_t end = 0;
  int64_t num_rows = 0;          // rows of all slots
  std::vector<BatchSlot> slots;  // in row order
};

// Plans the passes over the candidate lists of one call: each pass scores the documents of one batch. Names candidates
// by the locations of their documents in the pass's batch. Keeps its memory from call to call. Not thread-safe.
class ListPasses {
 public:
  // Plans `queries`. Each has a candidate list; the lists may differ, but all their ordinals must refer to one set of
  // documents, with the offsets `offsets`, [num_documents + 1]. The candidate at position p of a list is in the pass
  // with first <= p < end. Returns false if the candidates at one position do not fit one batch together; the caller
  // may then try fewer queries. Borrows the lists until the next Plan.
  bool Plan(absl::Span<const Query> queries, const int64_t* offsets, const BatchCapacity& capacity);

  absl::Span<const ListPass> passes() const { return absl::MakeConstSpan(passes_).first(num_passes_); }

  // Returns what replaces the ordinals in the list of query number `query`: for each candidate the location of its
  // document, which is the even number 2 s if slot s of the candidate's pass has the document. A batch has two offsets
  // per slot, the first row and the end, so documents need not be adjacent. Queries with the same list share its
  // locations.
  const uint32_t* locations(size_t query) const {
    return locations_.data() + lists_[list_of_query_[query]].locations_begin;
  }

 private:
  struct List {
    const uint32_t* ordinals;
    int64_t num_candidates;
    int64_t locations_begin;  // where its locations begin in locations_
  };

  // Begins a pass with the candidates from position `first` on.
  ListPass& NextPass(int64_t first);
  // Adds every list's candidate at `position`. Returns false when the pass has no room for them, and leaves its slots
  // as they were.
  bool AddPosition(int64_t position, const int64_t* offsets, const BatchCapacity& capacity, ListPass& pass);

  std::vector<List> lists_;            // without repeats
  std::vector<size_t> list_of_query_;  // by query, an index into lists_
  std::vector<uint32_t> locations_;
  std::vector<ListPass> passes_;  // has more than num_passes_, to keep the memory of their vectors
  size_t num_passes_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> slot_of_document_;  // of the pass that is being planned
};

}  // namespace maxsim::cuda
