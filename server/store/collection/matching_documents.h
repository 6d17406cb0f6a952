// The documents of a collection that match a filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/filters/filter.h"
#include "server/store/collection/parts.h"

namespace maxsim::store {

class Collection;
struct Part;

// Immutable and thread-safe. Requests and the cache of filters share it.
//
// If less than one document in kSparseShare of a shard matches, the matches are stored as a list of ordinals, otherwise
// as a mask (one bit per document). A scan of codes takes either. Scoring needs a list: without codes, a shard with a
// mask also has a list; with codes, List makes one on demand. Segments only have lists: a batch may score a later
// snapshot of a segment, whose new documents would have no bits in a mask.
class MatchingDocuments {
 public:
  // If one document in 32 matches, a list of 32-bit ordinals takes as much memory as a mask of one bit per document.
  static constexpr uint64_t kSparseShare = 32;

  // Finds the documents that match and are alive. `filter` must be in canonical form (CanonicalFilter). If the
  // collection has fields, every part must have its index of fields. `known` (may be null) has the matches in another
  // snapshot of the generation. Takes from `known` the matches of parts that have no new documents since, without the
  // documents that were replaced or deleted. Returns INVALID_ARGUMENT if the filter names a field that the collection
  // lacks, and the error of `check` (collection::EvaluateFilter).
  static absl::StatusOr<std::shared_ptr<const MatchingDocuments>> Find(const Collection& collection,
                                                                       const collection::Filter& filter,
                                                                       const MatchingDocuments* known,
                                                                       const StopCheck& check = nullptr);

  // Returns the sequence of the snapshot in which the documents were found.
  uint64_t sequence() const { return sequence_; }
  uint64_t num_documents() const { return num_documents_; }
  uint64_t num_tokens() const { return num_tokens_; }
  // Return the number of matching documents of a part, and of their tokens. Both are 0 for a part that was added after
  // the documents were found.
  uint64_t num_documents(size_t part) const { return part < parts_.size() ? parts_[part].num_documents : 0; }
  uint64_t num_tokens(size_t part) const { return part < parts_.size() ? parts_[part].num_tokens : 0; }
  bool Contains(Location location) const { return Contains(parts_[location.part], location.ordinal); }

  // Returns the documents of a part that match, as ordinals in the part, ascending. For List and mask, the collection
  // must already have had the part when the documents were found.
  std::shared_ptr<const std::vector<uint32_t>> List(size_t part) const;
  // Returns the mask of a part (ScanMask), or null if it only has a list.
  const std::shared_ptr<const std::vector<uint64_t>>& mask(size_t part) const { return parts_[part].mask; }

  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct MatchingPart {
    int64_t num_looked_at = 0;  // documents of the part that the filter was evaluated on
    size_t num_tombstones = 0;  // number of tombstones whose documents are left out
    uint64_t num_documents = 0;
    uint64_t num_tokens = 0;
    std::shared_ptr<const std::vector<uint32_t>> list;
    std::shared_ptr<const std::vector<uint64_t>> mask;
  };

  explicit MatchingDocuments(uint64_t sequence) : sequence_(sequence) {}
  static absl::StatusOr<MatchingPart> Evaluate(const Collection& collection, const Part& part,
                                               const collection::Filter& filter, const StopCheck& check);
  static void LeaveOut(const Collection& collection, const Part& part, std::vector<uint32_t> ordinals,
                       MatchingPart& found);
  static bool Contains(const MatchingPart& part, uint32_t ordinal);

  const uint64_t sequence_;
  std::vector<MatchingPart> parts_;
  uint64_t num_documents_ = 0;
  uint64_t num_tokens_ = 0;
  uint64_t memory_bytes_ = sizeof(MatchingDocuments);
};

}  // namespace maxsim::store
