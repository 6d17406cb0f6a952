// How documents that are not in the device's memory come there: in batches of bounded size, one while the one before it
// is scored. Plain host code.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// What a batch has room for.
struct BatchCapacity {
  int64_t rows = 0;       // tokens
  int64_t documents = 0;  // of a scan; of a list, which needs two offsets a document, half of it
};

// Returns the end of the documents from `begin` on that fit one batch: at least begin + 1, at most `num_documents`. A
// document alone must fit. `offsets` is [num_documents + 1].
int64_t EndOfBatch(const int64_t* offsets, int64_t begin, int64_t num_documents, const BatchCapacity& capacity);

// A document in a batch of a list.
struct BatchSlot {
  uint32_t document = 0;
  int64_t first_row = 0;  // in the batch
};

// Candidates [first, end) of every list, whose documents fit one batch together. Each document is there once.
struct ListPass {
  int64_t first = 0;
  int64_t end = 0;
  int64_t num_rows = 0;
  std::vector<BatchSlot> slots;  // in row order
};

// Plans the passes over the candidate lists of one call, and names candidates by their locations. Keeps its memory from
// call to call; not thread-safe.
class ListPasses {
 public:
  // Candidate p of a list is in the pass with first <= p < end. `queries` have lists, all of the same documents, whose
  // `offsets` these are; queries with the same list share its locations. False when the candidates at one position do
  // not fit one batch together: fewer queries may. Borrows the lists until the next Plan.
  bool Plan(absl::Span<const Query> queries, const int64_t* offsets, const BatchCapacity& capacity);

  absl::Span<const ListPass> passes() const { return absl::MakeConstSpan(passes_).first(num_passes_); }

  // In location of query i's ordinals: the even number 2 s for the document at slot s of the candidate's pass. A batch
  // has two offsets a slot, first row and end, so that documents need not stand next to each other.
  const uint32_t* locations(size_t query) const {
    return locations_.data() + lists_[list_of_query_[query]].locations_begin;
  }

 private:
  struct List {
    const uint32_t* ordinals;
    int64_t num_candidates;
    int64_t locations_begin;
  };

  ListPass& NextPass(int64_t first);
  // Adds every list's candidate at `position`; false when the pass has no room for them, and then it is as before.
  bool AddPosition(int64_t position, const int64_t* offsets, const BatchCapacity& capacity, ListPass& pass);

  std::vector<List> lists_;
  std::vector<size_t> list_of_query_;
  std::vector<uint32_t> locations_;
  std::vector<ListPass> passes_;  // more than num_passes_ are kept for their memory
  size_t num_passes_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> slot_of_document_;  // of the pass being planned
};

}  // namespace maxsim::cuda
