// Sorts matches in host memory by the row to which they point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::library {

// Row r has the matches entries[first[r]] .. entries[first[r + 1] - 1], in ascending order.
struct MatchesByRow {
  std::vector<int64_t> first;
  std::vector<int64_t> entries;
};

// Sorts the numbers 0 .. num_entries - 1 by row_of(entry); entries of the same row stay in ascending order. row_of must
// return a row below num_rows, or a negative number for an entry to leave out. Takes linear time.
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
