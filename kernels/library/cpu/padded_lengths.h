// Lengths of padded sets in host memory.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/library/problem/status.h"

namespace maxsim::library {

// The number of rows that count in each set of a padded batch. Does not own `lengths`.
struct PaddedLengths {
  const void* lengths = nullptr;  // [num_sets] of index_type; null if all rows count
  int32_t index_type = MAXSIM_INT64;
  int64_t max_rows = 0;

  int64_t operator[](int64_t set) const {
    if (lengths == nullptr) return max_rows;
    return index_type == MAXSIM_INT32 ? static_cast<const int32_t*>(lengths)[set]
                                      : static_cast<const int64_t*>(lengths)[set];
  }

  // Checks that every length is 0 .. max_rows. `name` is for the error.
  Status Check(const char* name, int64_t num_sets) const {
    for (int64_t set = 0; lengths != nullptr && set < num_sets; ++set) {
      if ((*this)[set] >= 0 && (*this)[set] <= max_rows) continue;
      return InvalidArgument(std::string(name) + "[" + std::to_string(set) + "] is " + std::to_string((*this)[set]) +
                             "; must be 0 to " + std::to_string(max_rows));
    }
    return {};
  }
};

}  // namespace maxsim::library
