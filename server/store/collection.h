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
#include "kernels/maxsim.h"
#include "server/shard/manifest.h"
#include "server/shard/shard.h"
#include "server/store/id_index.h"
#include "server/store/residency.h"

namespace maxsim::store {

// Immutable and thread-safe. Requests hold it by shared_ptr, so that a reload or an unload frees a generation only when
// the last request that began on it has been answered. Documents are numbered through the shards in manifest order: the
// ordinal of the collection is the shard's first ordinal plus the ordinal in the shard.
class Collection {
 public:
  struct Part {
    std::shared_ptr<const shard::Shard> shard;
    std::unique_ptr<Documents> documents;  // the shard's tokens on the backend
    uint64_t first_ordinal = 0;
  };

  // A document's place.
  struct Location {
    uint32_t part = 0;
    uint32_t ordinal = 0;  // in the part
  };

  // `parts` in manifest order. `reservation` (may be null) stands for the memory the parts take; it is let go after
  // them.
  Collection(std::string name, std::string path, shard::Manifest manifest, Residency residency, std::vector<Part> parts,
             IdIndex index, absl::Time loaded_at, std::shared_ptr<const void> reservation = nullptr);

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  const shard::Manifest& manifest() const { return manifest_; }
  Residency residency() const { return residency_; }  // never kAuto
  absl::Time loaded_at() const { return loaded_at_; }
  const std::vector<Part>& parts() const { return parts_; }
  int32_t dim() const { return manifest_.dim; }
  ScalarType storage() const { return manifest_.storage; }
  uint64_t num_documents() const { return static_cast<uint64_t>(manifest_.num_documents); }
  uint64_t num_tokens() const { return static_cast<uint64_t>(manifest_.num_tokens); }
  // Bytes held in the backend's memory: device memory for kGpu, the shards' copies for kHost, for kDisk what is copied
  // of them: ids, offsets and payloads.
  size_t resident_bytes() const;
  // Host memory beside that: the id index, and for kGpu ids, offsets and payloads.
  size_t index_bytes() const;

  // DATA_LOSS, naming the file, when one that is scored where it lies (kDisk) was written to or cannot be read. Calls
  // that score it fail with the same; ids, offsets and payloads are copies and stay right.
  absl::Status Check() const;

  // Ids to collection ordinals; nullopt for an unknown id. Only the method of the collection's id type may be called.
  std::optional<uint64_t> Find(std::string_view id) const { return index_.Find(id); }
  std::optional<uint64_t> Find(int64_t id) const { return index_.Find(id); }
  // For each of a list (IdIndex::FindAll): the ordinal, or IdIndex::kUnknown.
  void FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const {
    index_.FindAll(ids, ordinals);
  }
  void FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const { index_.FindAll(ids, ordinals); }

  // All of these take a collection ordinal < num_documents().
  Location Locate(uint64_t ordinal) const;
  std::string_view string_id(uint64_t ordinal) const;
  int64_t int_id(uint64_t ordinal) const;
  std::string_view payload(uint64_t ordinal) const;
  int64_t num_document_tokens(uint64_t ordinal) const;
  uint64_t num_tokens(absl::Span<const uint64_t> ordinals) const;  // of all of them together

 private:
  std::string name_;
  std::string path_;
  shard::Manifest manifest_;
  Residency residency_;
  std::shared_ptr<const void> reservation_;  // before parts_: destroyed after them
  std::vector<Part> parts_;
  IdIndex index_;
  absl::Time loaded_at_;
};

}  // namespace maxsim::store
