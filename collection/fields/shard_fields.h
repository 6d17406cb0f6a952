// Opens the file of a shard's fields for reading.
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

// The fields of a shard's documents, in a copy of the file. The file itself is closed. The class is thread-safe.
class ShardFields {
 public:
  // Opens the file that the entry names and checks it against the manifest: size, fields, documents, and with
  // `check_checksum` every byte. INVALID_ARGUMENT if the collection has no fields. DATA_LOSS names the file, what is
  // wrong and what was expected; other errors are those of Shard::Open. Ends with the status of `stop` (may be null)
  // once that is stopped.
  static absl::StatusOr<std::unique_ptr<ShardFields>> Open(const Folder& folder, const Manifest& manifest,
                                                           const ShardEntry& entry, bool check_checksum,
                                                           const StopSignal* stop = nullptr);
  static absl::StatusOr<std::unique_ptr<ShardFields>> Open(const std::string& folder, const Manifest& manifest,
                                                           const ShardEntry& entry, bool check_checksum);

  // Returns a column for each field of the manifest; valid as long as the object lives.
  const std::vector<FieldColumn>& columns() const { return columns_; }
  const std::string& path() const { return path_; }

 private:
  ShardFields(std::string path, FileBytes bytes, std::vector<FieldColumn> columns);

  const std::string path_;
  const FileBytes bytes_;
  const std::vector<FieldColumn> columns_;
};

}  // namespace maxsim::collection
