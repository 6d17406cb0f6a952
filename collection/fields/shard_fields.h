// Reads the file with a shard's fields.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "base/stop.h"
#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/manifest.h"

namespace maxsim {
class Folder;
}  // namespace maxsim

namespace maxsim::collection {

// The fields of a shard's documents, read into memory. Thread-safe.
class ShardFields {
 public:
  // Reads the field file that the entry names and checks it against the manifest: size, fields, number of documents
  // and, with `check_checksum`, the checksum. Returns INVALID_ARGUMENT if the collection has no fields. DATA_LOSS names
  // the file, what is wrong and what was expected. Other errors are those of Shard::Open. `stop` may be null; once it
  // is stopped, returns its status.
  static absl::StatusOr<std::unique_ptr<ShardFields>> Open(const Folder& folder, const Manifest& manifest,
                                                           const ShardEntry& entry, bool check_checksum,
                                                           const StopSignal* stop = nullptr);
  static absl::StatusOr<std::unique_ptr<ShardFields>> Open(const std::string& folder, const Manifest& manifest,
                                                           const ShardEntry& entry, bool check_checksum);

  // Returns a column for each field of the manifest, valid as long as this object lives.
  const std::vector<FieldColumn>& columns() const { return columns_; }
  const std::string& path() const { return path_; }

 private:
  ShardFields(std::string path, FileBytes bytes, std::vector<FieldColumn> columns);

  const std::string path_;
  const FileBytes bytes_;
  const std::vector<FieldColumn> columns_;
};

}  // namespace maxsim::collection
