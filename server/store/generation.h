// One loaded generation of a collection: its shards and their index.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "server/store/document_lengths.h"
#include "server/store/id_index.h"
#include "server/store/part.h"

namespace maxsim::store {

// The object is immutable and thread-safe.
class Generation {
 public:
  // The members that a generation is constructed from.
  struct Contents {
    std::string name;
    std::string path;
    collection::Manifest manifest;
    std::vector<Part> parts;  // in manifest order
    IdIndex index;            // of the documents that are alive
    bool on_gpu = false;      // The devices have memory of their own beside the shards'.
    absl::Time loaded_at;
    // The tombstones of a live collection's shards when the generation was written. [parts], or empty.
    collection::Tombstones tombstones;
  };
  explicit Generation(Contents contents);

  const std::string& name() const { return contents_.name; }
  const std::string& path() const { return contents_.path; }
  const collection::Manifest& manifest() const { return contents_.manifest; }
  const std::vector<Part>& parts() const { return contents_.parts; }
  const IdIndex& index() const { return contents_.index; }
  const DocumentLengths& lengths() const { return lengths_; }
  const std::vector<uint64_t>& first_ordinals() const { return first_ordinals_; }    // [parts]
  const collection::Tombstones& tombstones() const { return contents_.tombstones; }  // [parts], or empty
  bool on_gpu() const { return contents_.on_gpu; }
  absl::Time loaded_at() const { return contents_.loaded_at; }
  bool is_resident() const { return is_resident_; }
  // Counts the documents of all shards, those with a tombstone included: the bound of ordinals.
  uint64_t num_ordinals() const { return static_cast<uint64_t>(manifest().num_documents); }

  absl::Status Check() const;  // Collection::Check

 private:
  const Contents contents_;
  const bool is_resident_;
  const std::vector<uint64_t> first_ordinals_;
  const DocumentLengths lengths_;
};

}  // namespace maxsim::store
