// How many tokens each document of a collection has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"

namespace maxsim::store {

// Two bytes a document, where a shard's offsets are eight: what a list of candidates adds up to is soon read, wherever
// its documents lie. Nothing is kept where all have equally many, as far as that is known. Immutable and thread-safe.
class DocumentLengths {
 public:
  // Of the documents of all `parts`, one part after the other.
  explicit DocumentLengths(absl::Span<const DocumentsView> parts);

  // All take ordinals below the number of documents.
  int64_t Of(uint64_t ordinal) const { return equal_ > 0 ? equal_ : int64_t{less_one_[ordinal]} + 1; }
  uint64_t Sum(absl::Span<const uint64_t> ordinals) const { return SumFrom(0, ordinals); }
  // Of the documents first + ordinal.
  uint64_t Sum(uint64_t first, absl::Span<const uint32_t> ordinals) const { return SumFrom(first, ordinals); }

  size_t num_bytes() const { return less_one_.capacity() * sizeof(uint16_t); }  // host memory it takes
  // The most that those of so many documents take, known before they are read.
  static uint64_t NumBytes(uint64_t num_documents) { return num_documents * sizeof(uint16_t); }

 private:
  static_assert(kMaxDocumentTokens - 1 <= UINT16_MAX);

  template <typename Ordinal>
  uint64_t SumFrom(uint64_t first, absl::Span<const Ordinal> ordinals) const {
    if (equal_ > 0) return ordinals.size() * static_cast<uint64_t>(equal_);
    uint64_t sum = ordinals.size();
    for (const Ordinal ordinal : ordinals) sum += less_one_[first + ordinal];
    return sum;
  }

  int64_t equal_ = 0;               // of every document; 0: less_one_ says
  std::vector<uint16_t> less_one_;  // by ordinal
};

}  // namespace maxsim::store
