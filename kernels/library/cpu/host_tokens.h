// Reads maxsim_tokens (queries or documents) in host memory: the rows of each sequence, and which of its tokens count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/library/problem/problem.h"

namespace maxsim::library {

class HostTokens {
 public:
  explicit HostTokens(const maxsim_tokens& tokens) : tokens_(tokens) {}

  // Checks that every sequence lies inside the rows and has at most max_tokens tokens. `name` is for the error.
  Status Check(const char* name) const {
    for (int64_t sequence = 0; sequence < tokens_.num_sequences; ++sequence) {
      const int64_t begin = Begin(sequence);
      // Offsets may have any value, so compares them before subtracting, which might overflow.
      if (tokens_.layout == MAXSIM_PACKED) {
        const int64_t end = Begin(sequence + 1);
        if (begin < 0 || end < begin) {
          return InvalidArgument("sequence " + std::to_string(sequence) + " of " + name + " is from row " +
                                 std::to_string(begin) + " to row " + std::to_string(end) +
                                 "; offsets must be 0 or more, and must not decrease");
        }
      }
      const int64_t length = Length(sequence);
      if (begin < 0 || length < 0 || length > tokens_.max_tokens || begin > tokens_.num_rows - length) {
        return InvalidArgument("sequence " + std::to_string(sequence) + " of " + name + " has " +
                               std::to_string(length) + " tokens from row " + std::to_string(begin) +
                               " on; must have 0 to max_tokens = " + std::to_string(tokens_.max_tokens) + " of the " +
                               std::to_string(tokens_.num_rows) + " rows");
      }
    }
    return {};
  }

  // Returns the first row of a sequence.
  int64_t Begin(int64_t sequence) const {
    return tokens_.layout == MAXSIM_PADDED ? sequence * tokens_.max_tokens : Index(tokens_.offsets, sequence);
  }

  // Returns the number of rows of a sequence, including those that do not count.
  int64_t Length(int64_t sequence) const {
    if (tokens_.layout == MAXSIM_PACKED) return Index(tokens_.offsets, sequence + 1) - Begin(sequence);
    return tokens_.lengths == nullptr ? tokens_.max_tokens : Index(tokens_.lengths, sequence);
  }

  // Writes the indices (within the sequence) of the tokens that count, those that are not masked.
  void CountingTokens(int64_t sequence, std::vector<int32_t>* indices) const {
    const int64_t begin = Begin(sequence);
    const auto length = static_cast<int32_t>(Length(sequence));
    indices->clear();
    for (int32_t idx = 0; idx < length; ++idx) {
      if (tokens_.mask == nullptr || tokens_.mask[begin + idx] != 0) indices->push_back(idx);
    }
  }

  const char* Row(int64_t row) const { return static_cast<const char*>(tokens_.rows) + row * RowBytes(); }
  size_t RowBytes() const { return static_cast<size_t>(tokens_.dim) * SizeOf(static_cast<ScalarType>(tokens_.type)); }

  // Returns the scale of the token in row `row` (of all rows), which is part of sequence `sequence`.
  float Scale(int64_t sequence, int64_t row) const {
    return tokens_.scales == nullptr ? 1.0f
                                     : tokens_.scales[tokens_.scale_of == MAXSIM_SCALE_PER_TOKEN ? row : sequence];
  }

 private:
  int64_t Index(const void* indices, int64_t idx) const {
    return tokens_.index_type == MAXSIM_INT32 ? static_cast<const int32_t*>(indices)[idx]
                                              : static_cast<const int64_t*>(indices)[idx];
  }

  const maxsim_tokens& tokens_;
};

// Returns the document of a pair.
inline int64_t DocumentOf(const Problem& problem, int64_t pair) {
  switch (problem.call.pairing) {
    case MAXSIM_ALL:
      return pair % problem.list_length;
    case MAXSIM_PAIRS:
      return pair;
    default:
      return problem.call.candidates == nullptr ? pair : problem.call.candidates[pair];
  }
}

// Checks the offsets, lengths and candidates of a call in host memory.
inline Status CheckHostIndices(const Problem& problem) {
  if (Status status = HostTokens(problem.queries).Check("queries"); !status.ok()) return status;
  if (Status status = HostTokens(problem.documents).Check("documents"); !status.ok()) return status;
  if (problem.call.candidates == nullptr) return {};
  for (int64_t pair = 0; pair < problem.num_pairs; ++pair) {
    const int64_t document = problem.call.candidates[pair];
    if (document < 0 || document >= problem.documents.num_sequences) {
      return InvalidArgument("candidates[" + std::to_string(pair) + "] is " + std::to_string(document) +
                             "; there are " + std::to_string(problem.documents.num_sequences) + " documents");
    }
  }
  return {};
}

}  // namespace maxsim::library
