// The documents that requests are answered from: one generation (published state of the files) of a collection and, if
// the collection is live, the writes since then up to a sequence number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/filters/filter.h"
#include "collection/manifest.h"
#include "kernels/maxsim.h"
#include "server/store/collection/generation.h"
#include "server/store/collection/id_index.h"
#include "server/store/collection/part.h"
#include "server/store/collection/parts.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

class Changes;
class MatchingDocuments;

// Whether a filter is likely to be used again. If so (kRepeated), the cache of filters keeps the list of documents that
// match the filter.
enum class FilterUse : uint8_t { kRepeated, kOnce };

// A snapshot of a collection: immutable and thread-safe. Requests hold it by shared_ptr, so a reload or an unload frees
// a generation only after the last request that began on it has been answered. Each write to a live collection makes a
// new snapshot, which shares the documents with the previous one.
//
// A document's ordinal in the collection is the first ordinal of its part plus its ordinal in the part. Parts are the
// shards, in manifest order, and then the segments of a live collection. A document that was replaced or deleted has a
// tombstone, and its ordinal is not used again in this generation. In two snapshots of one generation, an ordinal that
// both have means the same document. So a caller that scores documents by ordinal may use the later snapshot instead of
// the earlier one.
class Collection {
 public:
  // How much memory the collection takes in one tier on one device.
  struct TierUsage {
    Residency tier = Residency::kHost;
    uint32_t device = 0;
    uint64_t num_shards = 0;
    uint64_t token_bytes = 0;   // as stored in the files
    uint64_t device_bytes = 0;  // of GPU memory
    // Host memory: pinned memory with GPUs; with the CPU backend, the memory of the shards.
    uint64_t host_bytes = 0;

    uint64_t resident_bytes() const { return device_bytes + host_bytes; }
  };

  // A document in its stored form.
  struct StoredDocument {
    std::vector<std::byte> rows;     // [tokens] rows of RowBytes of the storage type, packed
    float scale = 0;                 // i8
    ResidualCodebook codebook = {};  // for residual codes; points into the collection
  };

  // Makes a collection that is not live.
  explicit Collection(std::shared_ptr<const Generation> generation);
  // A live collection's changes up to `sequence`, made by Changes::Snapshot.
  struct Change {
    std::shared_ptr<const Changes> changes;
    uint64_t sequence = 0;
    uint64_t num_documents = 0;  // that are alive, in shards and segments
    uint64_t num_tokens = 0;     // of these
    std::vector<Part> segments;  // with the documents that they had at that sequence
  };
  Collection(std::shared_ptr<const Generation> generation, Change change);

  const std::string& name() const { return generation_->name(); }
  const std::string& path() const { return generation_->path(); }
  const collection::Manifest& manifest() const { return generation_->manifest(); }
  absl::Time loaded_at() const { return generation_->loaded_at(); }
  const Generation& generation() const { return *generation_; }
  const std::shared_ptr<const Generation>& shared_generation() const { return generation_; }
  int32_t dim() const { return manifest().dim; }
  ScalarType storage() const { return manifest().storage; }

  // Returns whether this is a partition: one part of a larger collection whose other documents are on other servers.
  bool is_partition() const { return manifest().partition.has_value(); }
  bool is_live() const { return change_.changes != nullptr; }
  // Returns the sequence of the last write in this snapshot; 0 if the collection is not live.
  uint64_t sequence() const { return change_.sequence; }
  // Returns whether both are snapshots of the same generation. If so, one backend call may score documents for requests
  // on both.
  bool SharesDocumentsWith(const Collection& other) const { return generation_ == other.generation_; }

  // Shards first, then segments.
  size_t num_parts() const { return generation_->parts().size() + change_.segments.size(); }
  const Part& part(size_t idx) const {
    const size_t num_shards = generation_->parts().size();
    return idx < num_shards ? generation_->parts()[idx] : change_.segments[idx - num_shards];
  }

  // Count the documents that are alive (have no tombstone), and their tokens.
  uint64_t num_documents() const { return num_documents_; }
  uint64_t num_tokens() const { return num_tokens_; }
  // Returns the number of ordinals, including those of documents with a tombstone. Every ordinal is below this
  // number.
  uint64_t num_ordinals() const { return num_ordinals_; }
  // Counts the documents of a part that have a tombstone. A scan of the part must leave them out.
  size_t num_tombstones(size_t part_idx) const;
  // Returns the documents of a part that have a tombstone, as ordinals in the part, oldest tombstone first. Leaves out
  // the `begin` oldest.
  std::vector<uint32_t> tombstones(size_t part_idx, size_t begin) const;
  // Returns how a scan of a part leaves out the documents with a tombstone (Changes::Filter). Call it only if
  // num_tombstones is not 0.
  ScanFilter scan_filter(size_t part_idx, size_t max_extra) const;
  // Returns how a scan of a part's codes leaves out the documents with a tombstone (Changes::Mask). Call it only if
  // num_tombstones is not 0.
  ScanMask scan_mask(size_t part_idx) const;

  // Returns the memory usage of shards and segments, one entry per tier and device, the fastest tier first.
  std::vector<TierUsage> tier_usage() const;
  // Returns the names of the memory tiers of the shards, fastest first, such as "gpu+host", or "auto" if there are no
  // shards.
  std::string tiers() const;
  // Returns the bytes of device memory and pinned host memory that all replicas take; on the CPU backend, the bytes of
  // host memory that the shards take.
  size_t resident_bytes() const;
  // Returns the bytes of host memory that resident_bytes does not count: the id index, documents' lengths, the indexes
  // of fields, SlotMasks, and, with GPUs, ids, offsets and payloads.
  size_t index_bytes() const;
  // Returns whether all shards are in the fastest tier: kGpu, or kHost on the CPU backend.
  bool is_resident() const { return generation_->is_resident(); }
  // Returns whether a scan of all shards copies at least half of their tokens to a GPU, from host memory or from disk.
  bool is_streamed() const { return generation_->is_streamed(); }
  // Returns how many planes of codes (bits per value of the compressed token vectors) every shard and segment has at
  // least: 1, 2 or 4, or 0 for no codes.
  int code_planes() const { return code_planes_; }
  // Counts the documents that are alive and whose part has no replica on a device that still answers.
  uint64_t num_unavailable(const DeviceSet& devices) const;

  // Returns DATA_LOSS, naming the file, if a file that is scored in place (kDisk) was written to or cannot be read.
  // Calls that score documents of this file fail with that status. Its ids, offsets and payloads stay valid, because
  // they are copies.
  absl::Status Check() const { return generation_->Check(); }

  // Return the ordinal of the document with this id, or nullopt if there is none. Only the method of the collection's
  // id type may be called.
  std::optional<uint64_t> Find(std::string_view id) const;
  std::optional<uint64_t> Find(int64_t id) const;
  // Find each id of a list: `ordinals` gets the document's ordinal, or IdIndex::kUnknown (IdIndex::FindAll).
  void FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const;
  void FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const;

  // Returns the documents that match a filter and are alive. Reuses matches from the store's cache of filters: all of
  // them if they were found in this snapshot, else those of the parts that both snapshots share. Returns
  // INVALID_ARGUMENT, naming the field, the value and the alternatives, if the filter does not suit the collection's
  // fields (CanonicalFilter). `check` (may be null) is called now and then; its error ends the search and is returned.
  absl::StatusOr<std::shared_ptr<const MatchingDocuments>> FindMatching(const collection::Filter& filter,
                                                                        const StopCheck& check = nullptr) const;
  // Like FindMatching, but takes a filter in canonical form, of any size.
  absl::StatusOr<std::shared_ptr<const MatchingDocuments>> FindCanonical(const collection::Filter& filter,
                                                                         FilterUse use, const StopCheck& check) const;

  // Counts the documents that are alive and whose ids are in a range of slots (hash values of ids). If `check` returns
  // an error, stops and returns the error.
  absl::StatusOr<uint64_t> CountInSlots(const collection::SlotRange& slots, const StopCheck& check) const;

  // Every ordinal that the following functions take must be below num_ordinals().
  Location Locate(uint64_t ordinal) const;
  std::string_view string_id(uint64_t ordinal) const;
  int64_t int_id(uint64_t ordinal) const;
  std::string_view payload(uint64_t ordinal) const;
  int64_t num_document_tokens(uint64_t ordinal) const;
  // Returns a document's position in the whole collection. Documents of equal score are ordered by position. The
  // position is the ordinal, unless this is a partition. In a partition, too, positions ascend with ordinals, and
  // compaction does not change a document's position.
  uint64_t position(uint64_t ordinal) const;
  // Sums up the tokens of the documents.
  uint64_t num_tokens(absl::Span<const uint64_t> ordinals) const;
  // Sums up the tokens of documents of one part. `ordinals` are ordinals in the part.
  uint64_t num_tokens(const Part& part, absl::Span<const uint32_t> ordinals) const;
  // Reads a document in its stored form, from memory, a file or a device. Returns the errors of
  // collection::Shard::ReadDocument, and UNAVAILABLE if all devices that hold the document are lost.
  absl::StatusOr<StoredDocument> ReadDocument(uint64_t ordinal) const;
  // Returns the sequence of the write that added the document; 0 if the document is in a shard.
  uint64_t sequence_of(uint64_t ordinal) const;

 private:
  const std::shared_ptr<const Generation> generation_;
  const Change change_;
  const uint64_t num_documents_;
  const uint64_t num_tokens_;
  const uint64_t num_ordinals_;
  const int code_planes_;
};

}  // namespace maxsim::store
