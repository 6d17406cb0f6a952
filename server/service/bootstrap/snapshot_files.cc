#include "server/service/bootstrap/snapshot_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/manifest.h"
#include "server/service/bootstrap/snapshot_messages.h"

namespace maxsim::service {
namespace {

// Calls `take` with the file's bytes, block by block, in `block`.
template <typename Take>
absl::Status ReadBlocks(const InputFile& file, uint64_t num_bytes, const StopSignal* stop, std::string& block,
                        Take take) {
  for (uint64_t offset = 0; offset < num_bytes;) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    block.resize(std::min<uint64_t>(kMaxSnapshotDataBytes, num_bytes - offset));
    absl::Status status = file.ReadAt(static_cast<int64_t>(offset), block.data(), block.size());
    offset += block.size();
    if (status.ok()) status = take();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SendFile(const std::string& folder, const SnapshotFile& described, SnapshotSink sink,
                      const StopSignal* stop) {
  const absl::StatusOr<InputFile> file = InputFile::Open(JoinPath(folder, described.path));
  if (!file.ok()) return file.status();
  v1::ReadSnapshotResponse message;
  SnapshotHash hash;
  absl::Status status = ReadBlocks(*file, described.num_bytes, stop, *message.mutable_data(), [&] {
    hash.Update(message.data().data(), message.data().size());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  v1::ReadSnapshotResponse beginning;
  beginning.mutable_file()->set_path(described.path);
  beginning.mutable_file()->set_bytes(described.num_bytes);
  beginning.mutable_file()->set_xxh3(hash.value());
  if (status = sink(beginning); !status.ok()) return status;
  return ReadBlocks(*file, described.num_bytes, stop, *message.mutable_data(), [&] { return sink(message); });
}

}  // namespace

absl::StatusOr<std::vector<SnapshotFile>> ListSnapshotFiles(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<SnapshotFile> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::file_status kind = entry->symlink_status(error);
    if (error) break;
    if (fs::is_directory(kind)) continue;
    if (!fs::is_regular_file(kind)) {
      return absl::InternalError(Cat(entry->path().string(), ": is neither a folder nor a plain file"));
    }
    const uint64_t num_bytes = entry->file_size(error);
    if (error) break;
    files.push_back({.path = entry->path().lexically_relative(folder).generic_string(), .num_bytes = num_bytes});
  }
  if (error) return ErrnoStatus(error.value(), "cannot list", folder);
  std::sort(files.begin(), files.end(), [](const SnapshotFile& a, const SnapshotFile& b) {
    const bool a_is_last = a.path == collection::kManifestFileName;
    const bool b_is_last = b.path == collection::kManifestFileName;
    return a_is_last != b_is_last ? b_is_last : a.path < b.path;
  });
  return files;
}

absl::Status SendSnapshotFiles(const std::string& folder, const std::vector<SnapshotFile>& files, SnapshotSink sink,
                               const StopSignal* stop) {
  for (const SnapshotFile& file : files) {
    if (absl::Status status = SendFile(folder, file, sink, stop); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace maxsim::service
