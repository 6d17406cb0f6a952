// The object manifest.json of a backup, which lists what the backup contains. It is written last: a backup without it
// is incomplete, and cannot be restored. Its format is in docs/reference/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"
#include "collection/slots.h"

namespace maxsim::backup {

inline constexpr char kManifestKey[] = "manifest.json";
// A part has at most 600,000 files (service::kMaxSnapshotFiles), which take about 90 MB of the manifest.
inline constexpr size_t kMaxManifestBytes = size_t{256} << 20;
inline constexpr size_t kMaxBackupParts = 1024;
// Limits the address of a server, the name of a stream and each other text.
inline constexpr size_t kMaxManifestTextBytes = 256;

struct BackupFile {
  std::string path;  // relative to the folder of the part's collection
  uint64_t num_bytes = 0;
  std::string sha256;  // 64 lower-case hex digits

  friend bool operator==(const BackupFile&, const BackupFile&) = default;
};

// The snapshot of one server: a live collection.
struct BackupPart {
  std::string server;  // from which it came, host:port
  collection::SlotRange slots;
  uint64_t sequence = 0;  // of the last write that it has
  uint64_t num_documents = 0;
  std::vector<BackupFile> files;

  friend bool operator==(const BackupPart&, const BackupPart&) = default;
};

struct BackupManifest {
  std::string id;  // 16 hex digits, chosen at random: the objects of two backups never have the same key
  std::string collection;
  std::string created_at;  // for people
  std::string created_by;
  std::optional<collection::LogStream> stream;
  std::vector<BackupPart> parts;

  // The lowest sequence (number of a write) of the parts. A server that loads a restored collection applies the
  // stream's messages after this one.
  uint64_t position() const;
  // The highest sequence of the parts. Once a restored collection has applied the stream up to there, it equals the
  // original collection at that sequence.
  uint64_t complete_at() const;
  uint64_t num_bytes() const;
};

// Returns the key of a part's file. `part` is the index of the part, and `path` is BackupFile::path.
std::string KeyOf(std::string_view id, size_t part, std::string_view path);

// Returns the slots that the parts have together. FAILED_PRECONDITION if there is a gap between them, or no part.
absl::StatusOr<collection::SlotRange> CoveredSlots(const std::vector<BackupPart>& parts);

std::string FormatManifest(const BackupManifest& manifest);

// Returns DATA_LOSS, naming the field, if a field is missing or has a value that FormatManifest cannot have written.
// Examples are a path that leads out of its folder, a file that is listed twice, and a gap between the slots of the
// parts. Returns FAILED_PRECONDITION for another version of the format. Ignores unknown members.
absl::StatusOr<BackupManifest> ParseManifest(std::string_view text);

}  // namespace maxsim::backup
