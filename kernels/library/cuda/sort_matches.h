// Sorts the matches of an argmax by the row to which they point, so that each row's matches are added in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace maxsim::library {

// Matches in device memory. After the sort, row r has the matches entries[row_begin[r]] .. entries[row_end[r] - 1], in
// ascending order.
struct SortedMatches {
  uint32_t* keys;           // [entries] the row that an entry points to, or num_rows for one without a match
  uint32_t* entries;        // [entries] 0, 1, 2, ... before the sort
  uint32_t* other_keys;     // [entries] where the sort puts keys on every other pass
  uint32_t* other_entries;  // [entries] the entries that belong to other_keys
  uint32_t* row_begin;      // [num_rows]
  uint32_t* row_end;        // [num_rows]
  void* sort_memory;
  size_t sort_bytes;
};

// Writes the size in bytes of SortedMatches::sort_memory for `num_entries` >= 1 entries to `*bytes`.
cudaError_t SortBytes(int64_t num_entries, int64_t num_rows, size_t* bytes);

// Sorts the matches stably by their keys, after the caller has written keys and entries. Writes row_begin and row_end,
// both 0 for rows without a match. Takes at most 2^31 - 1 entries and 2^32 - 2 rows. May swap the pointers `keys` and
// `entries` with `other_keys` and `other_entries`, so that the first two point to the result.
cudaError_t SortMatches(SortedMatches* matches, int64_t num_entries, int64_t num_rows, cudaStream_t stream);

}  // namespace maxsim::library
