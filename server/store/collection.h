// One loaded generation of a collection.
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

// Immutable and thread-safe. Requests hold it by shared_ptr, so that a reload or an unload frees a generation only when
// the last request that began on it has been answered. Documents are numbered through the shards in manifest order: the
// ordinal of the collection is the shard's first ordinal plus the ordinal in the shard.
class Collection {
 public:
  // The tokens of a shard on one device.
  struct Copy {
    uint32_t device = 0;  // index in the server's DeviceSet
    std::unique_ptr<Documents> documents;
  };

  // A shard, in one tier, on one device or copied to several.
  struct Part {
    std::shared_ptr<const collection::Shard> shard;
    Residency tier = Residency::kHost;  // never kAuto
    std::vector<Copy> copies;           // by device, at least one
    uint64_t first_ordinal = 0;

    int64_t num_documents() const { return shard->documents().num_documents; }
    int64_t num_tokens() const { return shard->documents().num_tokens(); }
    // Null where `device` has no copy.
    const Documents* On(uint32_t device) const;
    // Whether a device that answers has a copy.
    bool IsAvailable(const DeviceSet& devices) const;
  };

  // What a device has of the collection in one tier.
  struct Share {
    Residency tier = Residency::kHost;
    uint32_t device = 0;
    uint64_t num_shards = 0;
    uint64_t token_bytes = 0;   // as stored in the files
    uint64_t device_bytes = 0;  // memory they take of a GPU
    uint64_t host_bytes = 0;    // memory they take of the host: pinned for a GPU; the shards' own on the CPU backend

    uint64_t resident_bytes() const { return device_bytes + host_bytes; }
  };

  // A document's place.
  struct Location {
    uint32_t part = 0;
    uint32_t ordinal = 0;  // in the part
  };

  // What a collection is made of.
  struct Contents {
    std::string name;
    std::string path;
    collection::Manifest manifest;
    std::shared_ptr<const void> reservation;  // of the memory that the parts take; may be null
    std::vector<Part> parts;                  // in manifest order
    IdIndex index;
    bool on_gpu = false;  // the shards' own memory is not that of their devices
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

  // By tier, best first, and device.
  std::vector<Share> shares() const;
  // The tiers of its parts, best first: "gpu", "gpu+host". "auto" for a collection without shards.
  std::string tiers() const;
  // Memory of the devices, and host memory that stands for it, of all copies: on the CPU backend the shards' own.
  size_t resident_bytes() const;
  // Host memory beside that: the id index, documents' lengths, and on GPUs ids, offsets and payloads.
  size_t index_bytes() const;
  // Whether all of it is where scoring is fastest: on GPUs, or in host memory where there is none.
  bool is_resident() const { return is_resident_; }
  // Documents of parts that no device which answers has.
  uint64_t num_unavailable(const DeviceSet& devices) const;

  // DATA_LOSS, naming the file, when one that is scored where it lies (kDisk) was written to or cannot be read. Calls
  // that score it fail with the same; ids, offsets and payloads are copies and stay right.
  absl::Status Check() const;

  // Ids to collection ordinals; nullopt for an unknown id. Only the method of the collection's id type may be called.
  std::optional<uint64_t> Find(std::string_view id) const { return contents_.index.Find(id); }
  std::optional<uint64_t> Find(int64_t id) const { return contents_.index.Find(id); }
  // For each of a list (IdIndex::FindAll): the ordinal, or IdIndex::kUnknown.
  void FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const {
    contents_.index.FindAll(ids, ordinals);
  }
  void FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const {
    contents_.index.FindAll(ids, ordinals);
  }

  // All of these take a collection ordinal < num_documents().
  Location Locate(uint64_t ordinal) const;
  std::string_view string_id(uint64_t ordinal) const;
  int64_t int_id(uint64_t ordinal) const { return contents_.index.int_id(ordinal); }
  std::string_view payload(uint64_t ordinal) const;
  int64_t num_document_tokens(uint64_t ordinal) const { return lengths_.Of(ordinal); }
  // Of all of them together.
  uint64_t num_tokens(absl::Span<const uint64_t> ordinals) const { return lengths_.Sum(ordinals); }
  // Likewise, by their ordinals in one of its parts.
  uint64_t num_tokens(const Part& part, absl::Span<const uint32_t> ordinals) const {
    return lengths_.Sum(part.first_ordinal, ordinals);
  }

 private:
  const Contents contents_;  // the reservation is let go after the parts
  const bool is_resident_;
  const std::vector<uint64_t> first_ordinals_;  // [parts]
  const DocumentLengths lengths_;
};

}  // namespace maxsim::store
