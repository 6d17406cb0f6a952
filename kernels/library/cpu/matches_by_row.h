// Matches sorted by the row that they point to, in host memory: a CSR of an argmax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::library {

// Row r has the entries entries[first[r]] .. entries[first[r + 1] - 1], ascending.
struct MatchesByRow {
  std::vector<int64_t> first;
  std::vector<int64_t> entries;
};

// Sorts entries 0 .. num_entries - 1, stably, by row_of(entry), which returns a row below num_rows, or a negative
// number for an entry without a match. This is a counting sort, so the time is linear.
template <typename RowOf>
MatchesByRow SortByRow(int64_t num_entries, int64_t num_rows, RowOf row_of) {
  MatchesByRow matches;
  matches.first.assign(static_cast<size_t>(num_rows) + 1, 0);
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    if (const int64_t row = row_of(entry); row >= 0) ++matches.first[row + 1];
  }
  for (int64_t row = 0; row < num_rows; ++row) matches.first[row + 1] += matches.first[row];
  matches.entries.resize(static_cast<size_t>(matches.first[num_rows]));
  std::vector<int64_t> next(matches.first.begin(), matches.first.end() - 1);
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    if (const int64_t row = row_of(entry); row >= 0) matches.entries[next[row]++] = entry;
  }
  return matches;
}

}  // namespace maxsim::library
