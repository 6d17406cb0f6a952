#include "server/engine/candidates_by_part.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace maxsim::engine {
namespace {

// Returns whether all ordinals exist and the positions ascend. The loops have no branch, so that compilers vectorise
// them.
bool AllValid(const CandidateSet& set, uint64_t num_documents) {
  // The highest bit of `beyond` is set if any ordinal is 2^63 or more, or is beyond the last document.
  uint64_t beyond = 0;
  for (const uint64_t ordinal : set.ordinals) beyond |= ordinal | (num_documents - 1 - ordinal);
  uint32_t not_ascending = 0;
  for (size_t idx = 1; idx < set.positions.size(); ++idx) {
    not_ascending += set.positions[idx - 1] < set.positions[idx] ? 0 : 1;
  }
  return (beyond >> 63) == 0 && not_ascending == 0;
}

absl::Status Check(const store::Collection& collection, const CandidateSet& set) {
  if (set.positions.size() != set.ordinals.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("candidates have ", set.ordinals.size(), " ordinals and ", set.positions.size(), " positions"));
  }
  if (set.ordinals.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("candidates are ", set.ordinals.size(), "; the limit is ", std::numeric_limits<uint32_t>::max()));
  }
  if (AllValid(set, collection.num_ordinals())) return absl::OkStatus();
  for (size_t idx = 0; idx < set.ordinals.size(); ++idx) {
    if (set.ordinals[idx] >= collection.num_ordinals()) {
      return absl::InvalidArgumentError(absl::StrCat("candidate ", idx, " has ordinal ", set.ordinals[idx],
                                                     "; the collection has ", collection.num_ordinals(), " documents"));
    }
    if (idx != 0 && set.positions[idx] <= set.positions[idx - 1]) {
      return absl::InvalidArgumentError(absl::StrCat("candidate ", idx, " has position ", set.positions[idx],
                                                     " after position ", set.positions[idx - 1]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CandidatesByPart::Assign(const store::Collection& collection, const CandidateSet& set) {
  if (absl::Status status = Check(collection, set); !status.ok()) return status;
  const size_t count = set.ordinals.size();
  const size_t num_parts = collection.num_parts();
  ordinals_.resize(count);
  indices_.resize(count);
  starts_.assign(num_parts + 1, 0);

  if (num_parts == 1) {
    for (size_t idx = 0; idx < count; ++idx) {
      ordinals_[idx] = static_cast<uint32_t>(set.ordinals[idx]);
      indices_[idx] = static_cast<uint32_t>(idx);
    }
    starts_[1] = count;
    return absl::OkStatus();
  }

  // A counting sort by part: stable, and linear in the length of the list.
  locations_.resize(count);
  for (size_t idx = 0; idx < count; ++idx) {
    locations_[idx] = collection.Locate(set.ordinals[idx]);
    ++starts_[locations_[idx].part + 1];
  }
  for (size_t part = 0; part < num_parts; ++part) starts_[part + 1] += starts_[part];
  for (size_t idx = 0; idx < count; ++idx) {
    const size_t slot = starts_[locations_[idx].part]++;
    ordinals_[slot] = locations_[idx].ordinal;
    indices_[slot] = static_cast<uint32_t>(idx);
  }
  // The loop above has moved each part's start to the next part's. Move them back.
  for (size_t part = num_parts; part > 0; --part) starts_[part] = starts_[part - 1];
  starts_[0] = 0;
  return absl::OkStatus();
}

}  // namespace maxsim::engine
