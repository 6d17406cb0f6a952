#include "collection/fields/shard_fields.h"

#include <utility>

#include "base/folder.h"
#include "base/text.h"
#include "collection/file_checks.h"

namespace maxsim::collection {

ShardFields::ShardFields(std::string path, FileBytes bytes, std::vector<FieldColumn> columns)
    : path_(std::move(path)), bytes_(std::move(bytes)), columns_(std::move(columns)) {}

absl::StatusOr<std::unique_ptr<ShardFields>> ShardFields::Open(const Folder& folder, const Manifest& manifest,
                                                               const ShardEntry& entry, bool check_checksum,
                                                               const StopSignal* stop) {
  if (!entry.field_file.has_value()) return Invalid("the collection ", Quote(manifest.name), " has no fields");
  const FileEntry& expected = *entry.field_file;
  const absl::StatusOr<InputFile> file = folder.Open(expected.file);
  if (!file.ok()) return file.status();
  if (absl::Status status = CheckFileSize(*file, expected.num_bytes); !status.ok()) return status;
  absl::StatusOr<FileBytes> bytes = FileBytes::Copy(*file, stop);
  if (!bytes.ok()) return bytes.status();
  std::string path = JoinPath(folder.path(), expected.file);
  if (check_checksum) {
    const absl::StatusOr<std::string> found = HashBytes(bytes->view(), stop);
    if (!found.ok()) return found.status();
    if (absl::Status status = CheckChecksum(path, *found, expected.checksum); !status.ok()) return status;
  }
  absl::StatusOr<std::vector<FieldColumn>> columns =
      ParseFieldFile(bytes->view(), manifest.fields, entry.num_documents, stop);
  if (absl::Status status = StopStatus(stop); !status.ok()) return status;
  if (!columns.ok()) return DataLoss(path, MessageOf(columns.status()));
  // The columns point into the bytes, whose address does not change when `bytes` is moved.
  return std::unique_ptr<ShardFields>(new ShardFields(std::move(path), *std::move(bytes), *std::move(columns)));
}

absl::StatusOr<std::unique_ptr<ShardFields>> ShardFields::Open(const std::string& folder, const Manifest& manifest,
                                                               const ShardEntry& entry, bool check_checksum) {
  return Open(Folder(folder), manifest, entry, check_checksum);
}

}  // namespace maxsim::collection
