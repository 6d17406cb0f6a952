// The documents of a collection that match a filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"
#include "server/store/collection/parts.h"

namespace maxsim::store {

class Collection;

// Immutable and thread-safe. Requests and the cache of filters share it.
//
// Where less than one document of kSparseShare in a part matches, the part has a list of ordinals, else a mask. A scan
// of codes takes either. Scoring takes lists: the parts of a collection without codes have a list beside each mask, and
// those of others make one when it is asked for.
class MatchingDocuments {
 public:
  // A list of so few documents takes no more memory than a mask.
  static constexpr uint64_t kSparseShare = 32;

  // Finds the documents. `filter` is in its canonical form for the fields of the collection; every part must have
  // fields. INVALID_ARGUMENT where the filter names another field.
  static absl::StatusOr<std::shared_ptr<const MatchingDocuments>> Find(const Collection& collection,
                                                                       const collection::Filter& filter);

  uint64_t num_documents() const { return num_documents_; }
  uint64_t num_tokens() const { return num_tokens_; }
  // Count what matches of a part: nothing of a part that was added to the collection since.
  uint64_t num_documents(size_t part) const { return part < parts_.size() ? parts_[part].num_documents : 0; }
  uint64_t num_tokens(size_t part) const { return part < parts_.size() ? parts_[part].num_tokens : 0; }
  bool Contains(Location location) const;

  // Both take a part of the collection in which the documents were found.
  // Returns the documents of a part that match, as ordinals in the part, ascending.
  std::shared_ptr<const std::vector<uint32_t>> List(size_t part) const;
  // Returns the mask of a part (ScanMask), null where there is none. The part has a list then.
  const std::shared_ptr<const std::vector<uint64_t>>& mask(size_t part) const { return parts_[part].mask; }

  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct MatchingPart {
    uint64_t num_documents = 0;
    uint64_t num_tokens = 0;
    std::shared_ptr<const std::vector<uint32_t>> list;
    std::shared_ptr<const std::vector<uint64_t>> mask;
  };

  MatchingDocuments() = default;
  // Adds what matches of the next part.
  absl::Status AddPart(const Collection& collection, const collection::Filter& filter, bool keeps_lists);

  std::vector<MatchingPart> parts_;
  uint64_t num_documents_ = 0;
  uint64_t num_tokens_ = 0;
  uint64_t memory_bytes_ = sizeof(MatchingDocuments);
};

}  // namespace maxsim::store
