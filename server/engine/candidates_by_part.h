// A list of candidates, grouped by the parts of the collection that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/engine/job.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/parts.h"

namespace maxsim::engine {

// Keeps its memory from one list to the next. Not thread-safe.
class CandidatesByPart {
 public:
  // Replaces the contents by `set` (kOrdinals) of `collection`. Returns INVALID_ARGUMENT if an ordinal is beyond the
  // collection's last document, if there is not one position per ordinal, or if the positions do not increase.
  absl::Status Assign(const store::Collection& collection, const CandidateSet& set);

  // Return the candidates that lie in a part: their ordinals in the part, and their indices into set.ordinals. Both
  // keep the order of the request's list, so that of two candidates with equal scores the one listed first ranks first.
  absl::Span<const uint32_t> ordinals(size_t part) const { return Slice(ordinals_, part); }
  absl::Span<const uint32_t> indices(size_t part) const { return Slice(indices_, part); }

 private:
  absl::Span<const uint32_t> Slice(const std::vector<uint32_t>& all, size_t part) const {
    return absl::MakeConstSpan(all).subspan(starts_[part], starts_[part + 1] - starts_[part]);
  }

  std::vector<uint32_t> ordinals_;  // grouped by part
  std::vector<uint32_t> indices_;   // parallel to ordinals_
  std::vector<size_t> starts_;      // [parts + 1]
  std::vector<store::Location> locations_;
};

}  // namespace maxsim::engine
