// Finds the collection ordinal of a document id, and the integer id of an ordinal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/shard.h"

namespace maxsim::store {

// Immutable and thread-safe. The index does not copy ids: it is an open-addressing hash table of 12 bytes per document
// that refers to the ids in the shards, and it keeps the shards alive. If integer ids lie close together, the table has
// at most the same size, and the id minus the smallest id is its index. If they count up by one from the first
// document's id, no table is needed.
class IdIndex {
 public:
  // The result for an id that no document has.
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  // Builds the index over the documents of `shards`, whose ordinals count through the shards in order. Returns
  // DATA_LOSS naming the id and both documents when an id appears twice, and the status of `stop` (may be null) if it
  // is stopped. Documents with a tombstone keep their ordinals and are not found. `tombstones` has an element for each
  // shard, or is empty.
  static absl::StatusOr<IdIndex> Build(absl::Span<const std::shared_ptr<const collection::Shard>> shards,
                                       const StopSignal* stop = nullptr, const collection::Tombstones& tombstones = {});

  IdIndex(IdIndex&&) noexcept;
  IdIndex& operator=(IdIndex&&) noexcept;
  ~IdIndex();

  std::optional<uint64_t> Find(std::string_view id) const;  // string collections
  std::optional<uint64_t> Find(int64_t id) const;           // int64 collections

  // Look up each id of a list and write its ordinal, or kUnknown, to `ordinals`, which has the same length. Several
  // times as fast as calls of Find, because the memory for many ids is fetched at the same time.
  void FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const;  // string collections
  void FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const;             // int64 collections

  int64_t int_id(uint64_t ordinal) const;  // of a document; int64 collections

  size_t num_bytes() const;  // host memory it takes

  // Returns the most host memory that the index of this many documents takes, known before it is built.
  static uint64_t NumBytes(uint64_t num_documents);

 private:
  struct State;
  explicit IdIndex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::store
