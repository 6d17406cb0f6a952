// Sorts matches by the row that they point to: a CSR of an argmax in a fixed order, for rows that own their gradients.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace maxsim::library {

// Matches in memory of the device. Row r has those in places row_begin[r] .. row_end[r] - 1 of `entries`, ascending.
struct SortedMatches {
  uint32_t* keys;           // [entries] the row that an entry points to, or num_rows for one without a match
  uint32_t* entries;        // [entries] 0, 1, 2, ... before the sort
  uint32_t* other_keys;     // [entries] where the sort puts keys on every other pass
  uint32_t* other_entries;  // [entries] the entries beside them
  uint32_t* row_begin;      // [num_rows]
  uint32_t* row_end;        // [num_rows]
  void* sort_memory;
  size_t sort_bytes;
};

// Writes the bytes of SortedMatches::sort_memory for so many entries, of which there is at least one.
cudaError_t SortBytes(int64_t num_entries, int64_t num_rows, size_t* bytes);

// Sorts the matches, whose keys and entries are written, by their keys, stably, and writes row_begin and row_end; rows
// without a match get 0 for both. There are at most 2^31 - 1 entries and 2^32 - 2 rows. The pointers to keys and
// entries change places with those of the others where the sort ends there.
cudaError_t SortMatches(SortedMatches* matches, int64_t num_entries, int64_t num_rows, cudaStream_t stream);

}  // namespace maxsim::library
