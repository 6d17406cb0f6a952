// One loaded generation of a collection: its shards and their index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "server/store/collection/document_lengths.h"
#include "server/store/collection/id_index.h"
#include "server/store/collection/part.h"
#include "server/store/collection/parts.h"

namespace maxsim::store {

class FilterCache;

// The object is immutable and thread-safe.
class Generation {
 public:
  // The values that a generation is constructed from.
  struct Contents {
    std::string name;
    std::string path;
    collection::Manifest manifest;
    std::vector<Part> parts;  // in manifest order
    IdIndex index;            // finds the documents that are alive
    bool on_gpu = false;      // The devices have their own memory, separate from the shards' memory.
    absl::Time loaded_at;
    // The tombstones that a live collection's shards had when the generation was written: one element per part, or
    // empty.
    collection::Tombstones tombstones;
    int code_planes = 0;                             // from the memory plan; a live collection's segments get as many
    std::shared_ptr<FilterCache> filter_cache = {};  // one of the store's; may be null
  };
  explicit Generation(Contents contents);
  // Makes the cache of filters forget those of this generation.
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const std::string& name() const { return contents_.name; }
  const std::string& path() const { return contents_.path; }
  const collection::Manifest& manifest() const { return contents_.manifest; }
  const std::string& fingerprint() const { return fingerprint_; }  // of the manifest
  const std::vector<Part>& parts() const { return contents_.parts; }
  const IdIndex& index() const { return contents_.index; }
  const DocumentLengths& lengths() const { return lengths_; }
  const std::vector<uint64_t>& first_ordinals() const { return first_ordinals_; }    // [parts]
  const collection::Tombstones& tombstones() const { return contents_.tombstones; }  // [parts], or empty
  bool on_gpu() const { return contents_.on_gpu; }
  absl::Time loaded_at() const { return contents_.loaded_at; }
  bool is_resident() const { return is_resident_; }
  bool is_streamed() const { return is_streamed_; }
  // Returns how many planes of codes (bits per value of the compressed token vectors) each replica of each shard has:
  // 1, 2 or 4, or 0 for no codes. The segments of a live collection get as many.
  int code_planes() const { return code_planes_; }
  // Returns the cache of filters, or null, and the generation's number in it.
  FilterCache* filter_cache() const { return contents_.filter_cache.get(); }
  uint64_t number_in_filter_cache() const { return number_in_filter_cache_; }
  // Returns the number of documents in all shards, including those with a tombstone. Their ordinals are below this
  // number.
  uint64_t num_ordinals() const { return static_cast<uint64_t>(manifest().num_documents); }

  // Returns the part (shard or segment) that holds a document of the collection, and the document's ordinal in this
  // part. `segments` must ascend by first_ordinal. One of the shards or segments must hold `ordinal`.
  template <typename Segments>
  Location Locate(uint64_t ordinal, const Segments& segments) const {
    if (ordinal < num_ordinals()) {
      const size_t idx = PartOf(first_ordinals_, ordinal);
      return {static_cast<uint32_t>(idx), static_cast<uint32_t>(ordinal - first_ordinals_[idx])};
    }
    size_t idx = segments.size() - 1;
    while (segments[idx].first_ordinal > ordinal) --idx;
    return {static_cast<uint32_t>(parts().size() + idx), static_cast<uint32_t>(ordinal - segments[idx].first_ordinal)};
  }

  absl::Status Check() const;  // Collection::Check

 private:
  const Contents contents_;
  const std::string fingerprint_;
  const bool is_resident_;
  const bool is_streamed_;
  const int code_planes_;
  const std::vector<uint64_t> first_ordinals_;
  const DocumentLengths lengths_;
  const uint64_t number_in_filter_cache_;
};

}  // namespace maxsim::store
