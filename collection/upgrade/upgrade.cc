#include "collection/upgrade/upgrade.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "base/folder.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/codes/code_file.h"
#include "collection/fields/field_file.h"
#include "collection/formats/safetensors.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_summary.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "collection/shard_contents.h"

namespace maxsim::collection {
namespace {

absl::Status CheckFileFormat(const Folder& folder, const std::string& name, std::string_view format,
                             std::string_view version) {
  const absl::StatusOr<InputFile> file = folder.Open(name);
  if (!file.ok()) return file.status();
  const absl::StatusOr<SafetensorsHeader> header = ReadSafetensorsHeader(*file);
  const absl::Status status = header.ok() ? CheckFormat(*header, format, version) : header.status();
  return status.ok() ? status : Prefix(Cat(file->path(), ": "), status);
}

// Checks the format of all files of one kind, and adds the kind to `formats`. Only one version of this format exists.
// Adds nothing if there are no files.
absl::Status AddFiles(const Folder& folder, std::string_view kind, const std::vector<std::string>& names,
                      std::string_view format, std::string_view version, std::vector<FormatInUse>* formats) {
  if (names.empty()) return absl::OkStatus();
  for (const std::string& name : names) {
    if (absl::Status status = CheckFileFormat(folder, name, format, version); !status.ok()) return status;
  }
  FormatInUse found{.kind = kind, .num_files = static_cast<int64_t>(names.size())};
  if (!absl::SimpleAtoi(ForStrCat(version), &found.version)) return absl::InternalError("a version is not a number");
  found.current = found.version;
  formats->push_back(found);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FormatInUse>> ReadFormatsOf(const std::string& path, const Manifest& manifest) {
  const uint64_t version = static_cast<uint64_t>(FormatVersionOf(manifest));
  std::vector<FormatInUse> formats = {{.kind = "manifest", .num_files = 1, .version = version, .current = version}};
  std::vector<std::string> shards;
  std::vector<std::string> codes;
  std::vector<std::string> fields;
  for (const ShardEntry& entry : manifest.shards) {
    shards.push_back(entry.file);
    for (const FileEntry& file : entry.code_files) codes.push_back(file.file);
    if (entry.field_file.has_value()) fields.push_back(entry.field_file->file);
  }
  const Folder folder(path);
  absl::Status status = AddFiles(folder, "shards", shards, kShardFormat, kShardFormatVersion, &formats);
  if (status.ok()) status = AddFiles(folder, "codes", codes, kCodeFileFormat, kCodeFileFormatVersion, &formats);
  if (status.ok()) status = AddFiles(folder, "fields", fields, kFieldFileFormat, kFieldFileFormatVersion, &formats);
  if (!status.ok()) return status;
  if (!HasLog(path)) return formats;
  const absl::StatusOr<LogSummary> log = SummarizeLog(path, manifest);
  if (!log.ok()) return log.status();
  formats.push_back({.kind = "log",
                     .num_files = 1,
                     .version = log->format_version,
                     .current = log->current_format_version,
                     .needs_upgrade = log->needs_upgrade});
  return formats;
}

// The ids of a live collection's documents. An integer id is stored as its eight bytes.
class IdsOfDocuments {
 public:
  // Reads the ids in the log's writes after the manifest's log_sequence, and those of the shards' documents without
  // tombstones.
  static absl::StatusOr<IdsOfDocuments> Read(const std::string& folder, const Manifest& manifest,
                                             const CollectionLog& log) {
    IdsOfDocuments ids;
    absl::Status status =
        log.Read(manifest.log_sequence.value_or(0), log.last_sequence(), [&](const LogRecord& record) {
          if (record.kind != LogRecord::Kind::kSkipped) {
            ids.exists_[KeyOf(record, manifest.id_type)] = record.kind == LogRecord::Kind::kUpsert;
          }
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    const absl::StatusOr<Tombstones> tombstones = log.TombstonesOf(manifest);
    if (!tombstones.ok()) return tombstones.status();
    for (size_t idx = 0; idx < manifest.shards.size(); ++idx) {
      status = ids.AddShard(folder, manifest, manifest.shards[idx], (*tombstones)[idx]);
      if (!status.ok()) return status;
    }
    return ids;
  }

  bool Contains(const LogRecord& record, IdType id_type) const {
    const auto found = exists_.find(KeyOf(record, id_type));
    return found != exists_.end() && found->second;
  }

 private:
  static std::string KeyOf(int64_t id) { return {reinterpret_cast<const char*>(&id), sizeof(id)}; }
  static std::string KeyOf(const LogRecord& record, IdType id_type) {
    return id_type == IdType::kString ? std::string(record.string_id) : KeyOf(record.int_id);
  }

  absl::Status AddShard(const std::string& folder, const Manifest& manifest, const ShardEntry& entry,
                        const std::vector<uint32_t>& tombstones) {
    const absl::StatusOr<std::shared_ptr<Shard>> shard =
        Shard::Open(folder, manifest, entry, Access::kMapped, /*check_checksum=*/false);
    if (!shard.ok()) return shard.status();
    size_t next_tombstone = 0;
    for (int64_t ordinal = 0; ordinal < (*shard)->documents().num_documents; ++ordinal) {
      if (next_tombstone < tombstones.size() && tombstones[next_tombstone] == ordinal) {
        ++next_tombstone;
        continue;
      }
      // Does not replace an entry: a write after log_sequence already says whether the id has a document.
      exists_.try_emplace((*shard)->id_type() == IdType::kString ? std::string((*shard)->string_id(ordinal))
                                                                 : KeyOf((*shard)->int_id(ordinal)),
                          true);
    }
    return absl::OkStatus();
  }

  absl::flat_hash_map<std::string, bool> exists_;  // false: a write deleted the id
};

absl::Status UpgradeLog(const std::string& folder, const Manifest& manifest) {
  const absl::StatusOr<std::unique_ptr<CollectionLog>> log =
      CollectionLog::Open(folder, LogFormat::Of(manifest), CollectionLog::Mode::kMustExist);
  if (!log.ok()) return log.status();
  const absl::StatusOr<IdsOfDocuments> ids = IdsOfDocuments::Read(folder, manifest, **log);
  if (!ids.ok()) return ids.status();
  return (*log)->UpgradeVersions([&](const LogRecord& record) { return ids->Contains(record, manifest.id_type); });
}

}  // namespace

absl::StatusOr<std::vector<FormatInUse>> ReadFormats(const std::string& folder) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (absl::Status status = CheckLogIsThere(folder, *manifest); !status.ok()) return status;
  return ReadFormatsOf(folder, *manifest);
}

absl::StatusOr<std::vector<FormatInUse>> UpgradeCollection(const std::string& folder) {
  absl::StatusOr<std::vector<FormatInUse>> formats = ReadFormats(folder);
  if (!formats.ok()) return formats;
  const bool is_needed =
      std::any_of(formats->begin(), formats->end(), [](const auto& one) { return one.needs_upgrade; });
  if (!is_needed) return formats;
  const absl::StatusOr<FolderLock> lock = FolderLock::Acquire(folder);
  if (!lock.ok()) return lock.status();
  // Reads the manifest again, because a build may have published another one before this function took the lock.
  const absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (absl::Status status = UpgradeLog(folder, *manifest); !status.ok()) return status;
  return formats;
}

}  // namespace maxsim::collection
