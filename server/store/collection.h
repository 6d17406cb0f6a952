// Has one loaded generation of a collection.
#pragma once

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
#include "collection/manifest.h"
#include "collection/shard.h"
#include "kernels/maxsim.h"
#include "server/store/device_set.h"
#include "server/store/document_lengths.h"
#include "server/store/id_index.h"
#include "server/store/residency.h"

namespace maxsim::store {

// A collection is immutable and thread-safe. Requests hold it by shared_ptr, so that a reload or an unload frees a
// generation only when the last request that began on it has been answered. A document's ordinal in the collection is
// the first ordinal of its shard, in manifest order, plus its ordinal in the shard.
class Collection {
 public:
  // Holds the tokens of a shard on one device.
  struct Replica {
    uint32_t device = 0;  // index in the server's DeviceSet
    std::unique_ptr<Documents> documents;
  };

  // A shard that is loaded: in one tier, on one device or replicated on several.
  struct Part {
    std::shared_ptr<const collection::Shard> shard;
    Residency tier = Residency::kHost;  // never kAuto
    std::vector<Replica> replicas;      // by device, at least one
    uint64_t first_ordinal = 0;

    int64_t num_documents() const { return shard->documents().num_documents; }
    int64_t num_tokens() const { return shard->documents().num_tokens(); }
    // Returns null where `device` has no replica.
    const Documents* DocumentsOn(uint32_t device) const;
    // Returns whether a device that answers has a replica.
    bool IsAvailable(const DeviceSet& devices) const;
  };

  // What one tier of one device holds of the collection.
  struct TierUsage {
    Residency tier = Residency::kHost;
    uint32_t device = 0;
    uint64_t num_shards = 0;
    uint64_t token_bytes = 0;   // as stored in the files
    uint64_t device_bytes = 0;  // memory they take of a GPU
    uint64_t host_bytes = 0;    // memory they take of the host: pinned for a GPU; the shards' own on the CPU backend

    uint64_t resident_bytes() const { return device_bytes + host_bytes; }
  };

  // Where a document lies.
  struct Location {
    uint32_t part = 0;
    uint32_t ordinal = 0;  // in the part
  };

  // The members that a collection is constructed from.
  struct Contents {
    std::string name;
    std::string path;
    collection::Manifest manifest;
    std::shared_ptr<const void> reservation;  // holds the memory that the parts take; may be null
    std::vector<Part> parts;                  // in manifest order
    IdIndex index;
    bool on_gpu = false;  // The devices have memory of their own beside the shards'.
    absl::Time loaded_at;
  };
  explicit Collection(Contents contents);

  const std::string& name() const { return contents_.name; }
  const std::string& path() const { return contents_.path; }
  const collection::Manifest& manifest() const { return contents_.manifest; }
  absl::Time loaded_at() const { return contents_.loaded_at; }
  const std::vector<Part>& parts() const { return contents_.parts; }
  int32_t dim() const { return manifest().dim; }
  ScalarType storage() const { return manifest().storage; }
  uint64_t num_documents() const { return static_cast<uint64_t>(manifest().num_documents); }
  uint64_t num_tokens() const { return static_cast<uint64_t>(manifest().num_tokens); }

  // Returns the usage by tier, best first, and device.
  std::vector<TierUsage> tier_usage() const;
  // Names the tiers of its parts, best first, such as "gpu+host"; "auto" for a collection without shards.
  std::string tiers() const;
  // Sums up the device memory and the pinned host memory of all replicas; on the CPU backend, the shards' own memory.
  size_t resident_bytes() const;
  // Sums up the host memory beside resident_bytes: the id index, documents' lengths, and on GPUs ids, offsets and
  // payloads.
  size_t index_bytes() const;
  // Returns whether all parts are in the fastest tier: kGpu, or kHost on the CPU backend.
  bool is_resident() const { return is_resident_; }
  // Counts the documents of parts that no answering device has.
  uint64_t num_unavailable(const DeviceSet& devices) const;

  // Returns DATA_LOSS, naming the file, when a file that is scored in place (kDisk) was written to or cannot be read.
  // Calls that score it fail with that status; ids, offsets and payloads are copies and stay right.
  absl::Status Check() const;

  // Return the collection ordinal of an id, or nullopt for an unknown one. Only the method of the collection's id type
  // may be called.
  std::optional<uint64_t> Find(std::string_view id) const { return contents_.index.Find(id); }
  std::optional<uint64_t> Find(int64_t id) const { return contents_.index.Find(id); }
  // Find each id of a list (IdIndex::FindAll): its ordinal, or IdIndex::kUnknown.
  void FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const {
    contents_.index.FindAll(ids, ordinals);
  }
  void FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const {
    contents_.index.FindAll(ids, ordinals);
  }

  // Every ordinal that the following functions take must be below num_documents().
  Location Locate(uint64_t ordinal) const;
  std::string_view string_id(uint64_t ordinal) const;
  int64_t int_id(uint64_t ordinal) const { return contents_.index.int_id(ordinal); }
  std::string_view payload(uint64_t ordinal) const;
  int64_t num_document_tokens(uint64_t ordinal) const { return lengths_.Of(ordinal); }
  // Sums up the tokens of the documents.
  uint64_t num_tokens(absl::Span<const uint64_t> ordinals) const { return lengths_.Sum(ordinals); }
  // Sums up the tokens of documents of one part, which are given by their ordinals in the part.
  uint64_t num_tokens(const Part& part, absl::Span<const uint32_t> ordinals) const {
    return lengths_.Sum(part.first_ordinal, ordinals);
  }

 private:
  const Contents contents_;  // The reservation is freed after the parts.
  const bool is_resident_;
  const std::vector<uint64_t> first_ordinals_;  // [parts]
  const DocumentLengths lengths_;
};

}  // namespace maxsim::store
