// Reads the documents of a collection or of several partitions, or only those of some slots, in the order of their
// positions (collection/positions.h). Rows, scales, ids and payloads stay as they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file.h"
#include "base/stop.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/manifest.h"
#include "collection/positions.h"
#include "collection/shard.h"
#include "collection/slots.h"

namespace maxsim::collection {

// A collection to read, and which of its documents are selected. Collections that are read together must have the same
// dimension, storage and type of ids, and no id in common.
struct StoredCollection {
  std::string folder;
  Manifest manifest;
  SlotRange slots = {};                 // only documents of these slots are read
  int64_t max_position = kMaxPosition;  // and only those up to this position
};

// Walks over the selected documents of collections, in ascending order of their positions. If positions are equal, the
// document of the earlier collection comes first. Each collection has one open shard at a time, which is in memory
// except for its tokens.
class StoredWalk {
 public:
  // `collections` and `stop` (may be null) must outlive the walk. With `hashes`, the walk verifies the shards'
  // checksums: the caller must pass the rows of every document to HashRows, and the walk itself reads the rows of
  // documents that are not selected.
  StoredWalk(absl::Span<const StoredCollection> collections, bool hashes, const StopSignal* stop = nullptr);

  // Moves to the next selected document; returns false after the last. Views are valid until the next call. Returns
  // DATA_LOSS if the positions in a collection do not ascend. Other errors are those of Shard::Open and of `stop`.
  absl::StatusOr<bool> Next();

  const std::string& folder() const { return sources_[source_].collection->folder; }
  int64_t position() const { return position_; }
  std::string_view string_id() const { return shard().string_id(document_); }
  int64_t int_id() const { return shard().int_id(document_); }
  std::string_view payload() const { return shard().payload(document_); }
  int32_t num_tokens() const;
  float scale() const;  // i8
  std::string_view rows() const;

  // Adds the next bytes of the current document's rows to the checksum of its shard. Pass a copy of the rows, so that
  // tokens are read only once. For the last selected document of a shard, returns DATA_LOSS, naming the file, if the
  // checksum is wrong.
  absl::Status HashRows(const void* data, size_t count);

 private:
  struct Source {
    const StoredCollection* collection = nullptr;
    bool has_others = false;  // it has documents that are passed over
    size_t next_shard = 0;
    std::shared_ptr<const Shard> shard;
    int64_t shard_begin = 0;    // number of documents in the shards before
    int64_t next_document = 0;  // in the shard
    int64_t last_position = -1;
    size_t bytes_left = 0;  // of the shard's tokens, to be hashed
    std::optional<Checksum> checksum = {};
  };

  const Shard& shard() const { return *sources_[source_].shard; }
  absl::Status Advance(size_t source_idx);
  absl::Status OpenNext(Source& source) const;
  absl::Status PassOthers(Source& source);
  static bool IsOther(const Source& source, int64_t document);
  static absl::Status AddToChecksum(Source& source, const void* data, size_t count);

  const bool hashes_;
  const StopSignal* const stop_;
  int64_t num_passed_ = 0;  // documents
  std::vector<Source> sources_;
  bool has_begun_ = false;
  std::vector<std::pair<int64_t, size_t>> next_;  // heap: the position of each source's next document, least first
  size_t source_ = 0;                             // of the present document
  int64_t document_ = 0;                          // in its shard
  int64_t position_ = 0;
  size_t row_bytes_left_ = 0;  // of the present document, to be hashed
};

struct StoredCatalogOptions {
  bool has_payloads = false;   // there is a size for each document, 0 for none
  bool has_positions = false;  // there is a position for each document
  // Whether the later one of two documents with the same position gets the next free position. If false, or if the
  // position is kFirstWrittenPosition or higher, ReadStoredCatalog returns FAILED_PRECONDITION instead.
  bool moves_equal_positions = false;
  const StopSignal* stop = nullptr;
};

// Reads the catalog (lengths, ids, payload sizes and positions) of the selected documents, which a build needs first.
absl::StatusOr<std::unique_ptr<Catalog>> ReadStoredCatalog(absl::Span<const StoredCollection> collections,
                                                           const StoredCatalogOptions& options);

// Returns the rows of the selected documents as they are stored, with their scales. Verifies the shards' checksums.
class StoredTokens : public TokenSource {
 public:
  // `num_tokens` is the number of tokens of all selected documents. `stop` may be null.
  StoredTokens(absl::Span<const StoredCollection> collections, int64_t num_tokens, const StopSignal* stop);
  ElementType type() const override;
  int64_t dim() const override { return manifest_.dim; }
  int64_t num_tokens() const override { return num_tokens_; }
  absl::StatusOr<const void*> Next(int64_t num_rows) override;
  absl::StatusOr<float> NextStoredScale() override;

 private:
  const Manifest& manifest_;  // of the first collection
  const int64_t num_tokens_;
  StoredWalk walk_;
  std::string_view rest_;  // of the present document's rows
  std::deque<float> scales_;
  std::vector<char> block_;
};

class StoredPayloads : public PayloadSource {
 public:
  explicit StoredPayloads(absl::Span<const StoredCollection> collections) : walk_(collections, /*hashes=*/false) {}
  absl::StatusOr<std::string_view> Next() override;

 private:
  StoredWalk walk_;
};

}  // namespace maxsim::collection
