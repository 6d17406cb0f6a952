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
// Where less than one document of kSparseShare in a shard matches, it has a list of ordinals, else a mask. A scan of
// codes takes either. Scoring takes lists: the shards of a collection without codes have a list beside each mask, and
// those of others make one when it is asked for. Segments have lists alone: they grow, and a mask must have a bit for
// each document of the part as later snapshots have it, which a batch may score.
class MatchingDocuments {
 public:
  // A list of so few documents takes no more memory than a mask.
  static constexpr uint64_t kSparseShare = 32;

  // Finds the documents that are alive. `filter` is in its canonical form for the fields of the collection; every part
  // must have fields. `known` (may be null) has what matches it in another snapshot of the generation: parts that have
  // not changed are taken over from it, and from those that only lost documents since, these are removed.
  // INVALID_ARGUMENT where the filter names another field, and the error of `check` (collection::EvaluateFilter).
  static absl::StatusOr<std::shared_ptr<const MatchingDocuments>> Find(const Collection& collection,
                                                                       const collection::Filter& filter,
                                                                       const MatchingDocuments* known,
                                                                       const StopCheck& check = nullptr);

  // Returns the sequence of the snapshot that they were found in.
  uint64_t sequence() const { return sequence_; }
  uint64_t num_documents() const { return num_documents_; }
  uint64_t num_tokens() const { return num_tokens_; }
  // Count what matches of a part: nothing of a part that was added to the collection since.
  uint64_t num_documents(size_t part) const { return part < parts_.size() ? parts_[part].num_documents : 0; }
  uint64_t num_tokens(size_t part) const { return part < parts_.size() ? parts_[part].num_tokens : 0; }
  bool Contains(Location location) const { return Contains(parts_[location.part], location.ordinal); }

  // Both take a part of the collection in which the documents were found.
  // Returns the documents of a part that match, as ordinals in the part, ascending.
  std::shared_ptr<const std::vector<uint32_t>> List(size_t part) const;
  // Returns the mask of a part (ScanMask), null where there is none. The part has a list then.
  const std::shared_ptr<const std::vector<uint64_t>>& mask(size_t part) const { return parts_[part].mask; }

  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct MatchingPart {
    int64_t num_looked_at = 0;  // documents of the part
    size_t num_tombstones = 0;  // whose documents are left out
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
