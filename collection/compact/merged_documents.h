// Reads the documents that a compaction writes into a new shard: first the live documents of old shards, then documents
// from the log. Rows, ids and payloads are copied byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/compact/changed_ids.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "collection/shard.h"

namespace maxsim::collection {

// The live documents of some shards (those without a tombstone), followed by documents from the log. Owns nothing.
struct DocumentRun {
  const std::string* folder = nullptr;
  const Manifest* manifest = nullptr;
  const CollectionLog* log = nullptr;
  const Tombstones* tombstones = nullptr;  // of all shards of the manifest
  std::vector<size_t> shards;              // which of them
  absl::Span<const LiveUpsert> upserts;
  const StopSignal* stop = nullptr;
};

// Walks over the documents of a run. Opens one shard at a time.
class DocumentWalk {
 public:
  // With `check_checksums`, verifies each shard's checksum when it opens the shard. Without `with_rows`, does not read
  // the rows (token vectors) of documents from the log.
  DocumentWalk(const DocumentRun& run, bool check_checksums, bool with_rows)
      : run_(run), check_checksums_(check_checksums), with_rows_(with_rows) {}

  // Moves to the next document; returns false after the last. Views are valid until the next call.
  absl::StatusOr<bool> Next();

  std::string_view string_id() const { return string_id_; }
  int64_t int_id() const { return int_id_; }
  int32_t num_tokens() const { return num_tokens_; }
  float scale() const { return scale_; }
  std::string_view rows() const { return rows_; }
  std::string_view payload() const { return payload_; }
  // Partitions: returns the document's position in the order of the whole collection.
  int64_t position() const { return position_; }

  // Returns OK if the rows came from an unchanged file.
  absl::Status Check() const { return shard_ == nullptr ? absl::OkStatus() : shard_->Check(); }

 private:
  absl::StatusOr<bool> NextOfShards();
  void TakeDocument(int64_t ordinal);
  absl::Status TakeUpsert(uint64_t sequence);

  const DocumentRun& run_;
  const bool check_checksums_;
  const bool with_rows_;
  size_t next_shard_ = 0;
  std::shared_ptr<const Shard> shard_;
  int64_t next_ordinal_ = 0;
  size_t next_tombstone_ = 0;
  size_t next_upsert_ = 0;

  std::string_view string_id_;
  int64_t int_id_ = 0;
  int32_t num_tokens_ = 0;
  float scale_ = 0;
  std::string_view rows_;
  std::string_view payload_;
  int64_t position_ = 0;
  std::string copied_id_;  // of a write
  std::string copied_rows_;
  std::string copied_payload_;
};

// Reads the lengths, ids and, with `has_payloads`, payload sizes of the run's documents. Verifies the shards'
// checksums.
absl::StatusOr<std::unique_ptr<Catalog>> ReadCatalog(const DocumentRun& run, bool has_payloads);

// Rows as they are stored, with their scales.
class MergedTokens : public TokenSource {
 public:
  MergedTokens(const DocumentRun& run, int64_t num_tokens)
      : run_(run), num_tokens_(num_tokens), walk_(run, /*check_checksums=*/false, /*with_rows=*/true) {}
  ElementType type() const override;
  int64_t dim() const override { return run_.manifest->dim; }
  int64_t num_tokens() const override { return num_tokens_; }
  absl::StatusOr<const void*> Next(int64_t num_rows) override;
  absl::StatusOr<float> NextStoredScale() override;

 private:
  const DocumentRun& run_;
  const int64_t num_tokens_;
  DocumentWalk walk_;
  std::string_view rest_;  // of the present document's rows
  std::deque<float> scales_;
  std::vector<char> block_;
};

class MergedPayloads : public PayloadSource {
 public:
  explicit MergedPayloads(const DocumentRun& run) : walk_(run, /*check_checksums=*/false, /*with_rows=*/false) {}
  absl::StatusOr<std::string_view> Next() override;

 private:
  DocumentWalk walk_;
};

}  // namespace maxsim::collection
