#include "collection/build/generation_files.h"

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/build/shard_plan.h"
#include "collection/generations/kept_generations.h"
#include "kernels/codes/code_layout.h"

namespace maxsim::collection {
namespace {

// Returns the generation in the name of a shard, field or code file; nullopt for any other name.
std::optional<int64_t> GenerationOf(const std::string& name) {
  long long generation = 0;
  long long index = 0;
  if (std::sscanf(name.c_str(), "shard-%18lld-%18lld.", &generation, &index) == 2) {
    return ShardFileName(generation, index) == name ? std::optional<int64_t>(generation) : std::nullopt;
  }
  if (std::sscanf(name.c_str(), "fields-%18lld-%18lld.", &generation, &index) == 2) {
    return FieldFileName(generation, index) == name ? std::optional<int64_t>(generation) : std::nullopt;
  }
  if (std::sscanf(name.c_str(), "codes-%18lld-%18lld-", &generation, &index) != 2) return std::nullopt;
  for (size_t file = 0; file < NumCodeFiles(kMaxPlanes); ++file) {
    if (CodeFileName(generation, index, file) == name) return generation;
  }
  return std::nullopt;
}

// Removes the files for whose names `pick` returns true. Ignores errors, because the next build tries again.
template <typename Pick>
void RemoveFiles(const std::string& folder, const Pick& pick) {
  const absl::StatusOr<std::vector<std::string>> names = ListFiles(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (pick(name)) ::unlink(JoinPath(folder, name).c_str());
  }
}

std::set<std::string> FilesOf(const Manifest& manifest) {
  std::set<std::string> files;
  for (const ShardEntry& entry : manifest.shards) {
    files.insert(entry.file);
    for (const CodeFileEntry& code_file : entry.code_files) files.insert(code_file.file);
    if (entry.field_file.has_value()) files.insert(entry.field_file->file);
  }
  return files;
}

}  // namespace

void RemoveLeftovers(const std::string& folder, const Manifest& published) {
  const std::set<std::string> files = FilesOf(published);
  RemoveFiles(folder, [&](const std::string& name) {
    if (absl::EndsWith(name, ForStrCat(kTemporarySuffix))) {
      const std::string target = name.substr(0, name.size() - kTemporarySuffix.size());
      return target == kManifestFileName || target == kPreviousManifestName || GenerationOf(target).has_value();
    }
    const std::optional<int64_t> generation = GenerationOf(name);
    return generation.has_value() && *generation > published.generation && files.count(name) == 0;
  });
}

void RemoveOldGenerations(const std::string& folder, const Manifest& published, const Manifest& before) {
  std::set<std::string> files = FilesOf(published);
  files.merge(FilesOf(before));
  // A live collection's server needs no other generation. A note may be left from the time before it was live.
  if (!published.log_sequence.has_value()) {
    // Without this manifest it is not known which files a server needs when it restarts, so all stay.
    const absl::StatusOr<std::optional<ServedGeneration>> served = ReadServed(Folder(folder));
    if (!served.ok()) return;
    if (served->has_value()) files.merge(FilesOf((*served)->manifest));
  }
  RemoveFiles(folder, [&](const std::string& name) {
    const std::optional<int64_t> generation = GenerationOf(name);
    return generation.has_value() && *generation < published.generation - 1 && files.count(name) == 0;
  });
}

absl::Status CheckSpace(const std::string& folder, int64_t needed) {
  const absl::StatusOr<int64_t> free = FreeDiskBytes(folder);
  if (!free.ok()) return free.status();
  if (needed <= *free) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat(folder, ": the collection needs ", FormatBytes(needed),
                                          ", but the disk has only ", FormatBytes(*free), " free"));
}

UnpublishedFiles::~UnpublishedFiles() {
  for (const std::string& file : files_) ::unlink(JoinPath(folder_, file).c_str());
}

absl::Status PublishGeneration(const Manifest& manifest, const std::string& folder, UnpublishedFiles& files,
                               absl::Status* synchronised) {
  // The shards' names must be on disk before a manifest that contains them.
  if (absl::Status status = SyncFolder(folder); !status.ok()) return status;
  if (absl::Status status = PublishManifest(manifest, folder, synchronised); !status.ok()) return status;
  files.Keep();
  return absl::OkStatus();
}

std::string CreationTime() { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()); }

}  // namespace maxsim::collection
