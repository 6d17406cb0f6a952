// How many tokens each document of a collection has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"

namespace maxsim::store {

// Holds the number of tokens of every document, in two bytes each. A shard's offsets take eight, so counting the tokens
// of a list of candidates reads less memory with this class. Stores no lengths if all documents are known to have the
// same number of tokens. The object is immutable and thread-safe.
class DocumentLengths {
 public:
  // Reads the lengths of the documents of all `parts`, one part after the other.
  explicit DocumentLengths(absl::Span<const DocumentsView> parts);

  // Ordinals must be below the number of documents.
  int64_t Of(uint64_t ordinal) const {
    return common_length_ > 0 ? common_length_ : int64_t{lengths_minus_one_[ordinal]} + 1;
  }
  uint64_t Sum(absl::Span<const uint64_t> ordinals) const { return SumFrom(0, ordinals); }
  // Sums up the lengths of the documents `first` + ordinal, for each of `ordinals`.
  uint64_t Sum(uint64_t first, absl::Span<const uint32_t> ordinals) const { return SumFrom(first, ordinals); }

  size_t num_bytes() const { return lengths_minus_one_.capacity() * sizeof(uint16_t); }  // host memory it takes
  // Returns the most memory that the lengths of this many documents take, known before they are read.
  static uint64_t NumBytes(uint64_t num_documents) { return num_documents * sizeof(uint16_t); }

 private:
  static_assert(kMaxDocumentTokens - 1 <= UINT16_MAX);

  template <typename Ordinal>
  uint64_t SumFrom(uint64_t first, absl::Span<const Ordinal> ordinals) const {
    if (common_length_ > 0) return ordinals.size() * static_cast<uint64_t>(common_length_);
    uint64_t sum = ordinals.size();
    for (const Ordinal ordinal : ordinals) sum += lengths_minus_one_[first + ordinal];
    return sum;
  }

  int64_t common_length_ = 0;                // of every document; 0 if lengths differ (lengths_minus_one_)
  std::vector<uint16_t> lengths_minus_one_;  // by ordinal
};

}  // namespace maxsim::store
