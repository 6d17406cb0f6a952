#include "server/live/local/snapshot_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"

namespace maxsim::live {
namespace {

// Removes a folder, with everything in it, unless it was kept.
class FolderGuard {
 public:
  explicit FolderGuard(std::string path) : path_(std::move(path)) {}
  ~FolderGuard() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  FolderGuard(const FolderGuard&) = delete;
  FolderGuard& operator=(const FolderGuard&) = delete;
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

absl::Status CopyFile(const std::string& from, const std::string& to, const StopSignal* stop) {
  absl::StatusOr<InputFile> input = InputFile::Open(from);
  if (!input.ok()) return input.status();
  absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(to);
  if (!output.ok()) return output.status();
  std::vector<char> block(std::min(kStopBlockBytes, static_cast<size_t>(std::max<int64_t>(input->size(), 1))));
  for (int64_t offset = 0; offset < input->size();) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    const auto count =
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(block.size()), input->size() - offset));
    if (absl::Status status = input->ReadAt(offset, block.data(), count); !status.ok()) return status;
    if (absl::Status status = (*output)->Write(block.data(), count); !status.ok()) return status;
    offset += static_cast<int64_t>(count);
  }
  return (*output)->Commit();
}

absl::Status LinkOrCopy(const std::string& from, const std::string& to, const StopSignal* stop) {
  if (::link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  // A hard link cannot be made across file systems, on file systems without links, beyond a file's maximum number of
  // links, or to files of other users. Copy the file in these cases.
  if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) return CopyFile(from, to, stop);
  if (errno == ENOENT) return absl::FailedPreconditionError(Cat(from, ": is gone: two newer generations replaced it"));
  return ErrnoStatus(errno, "cannot link", from);
}

absl::Status AlreadyExists(const std::string& path) { return absl::AlreadyExistsError(Cat(path, ": exists already")); }

// Makes a temporary folder beside `target`, with an unused name.
absl::StatusOr<std::string> MakeUnfinished(const std::string& parent, const std::string& target) {
  static std::atomic<uint64_t> num_made{0};
  while (true) {
    // A folder with this name may already exist. A process that has ended and had the same process id may have made
    // it, or a process in another container.
    const std::string path =
        JoinPath(parent, Cat(".", target, ".", ::getpid(), "-", num_made.fetch_add(1), kTemporarySuffix));
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) return ErrnoStatus(errno, "cannot create folder", path);
  }
}

// Renames a folder. The new name must not exist yet.
absl::Status RenameToNew(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
  if (errno == EEXIST) return AlreadyExists(to);
  if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(errno, "cannot rename", from);
  // The file system does not support RENAME_NOREPLACE. So make an empty folder with the new name, which fails if the
  // name exists, and then rename over it.
  if (::mkdir(to.c_str(), 0777) != 0) {
    return errno == EEXIST ? AlreadyExists(to) : ErrnoStatus(errno, "cannot create folder", to);
  }
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  absl::Status status = ErrnoStatus(errno, "cannot rename", from);
  ::rmdir(to.c_str());
  return status;
}

}  // namespace

absl::StatusOr<uint64_t> MakeSnapshotFolder(const std::string& from, const collection::Manifest& manifest,
                                            const collection::CollectionLog& log, const std::string& to,
                                            const StopSignal* stop) {
  std::filesystem::path target(to);
  if (target.filename().empty()) target = target.parent_path();  // "folder/"
  const std::string parent = target.has_parent_path() ? target.parent_path().string() : ".";
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(target, error))) return AlreadyExists(target.string());
  const absl::StatusOr<std::string> made = MakeUnfinished(parent, target.filename().string());
  if (!made.ok()) return made.status();
  const std::string& unfinished = *made;
  FolderGuard guard(unfinished);

  for (const collection::ShardEntry& shard : manifest.shards) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    absl::Status status = LinkOrCopy(JoinPath(from, shard.file), JoinPath(unfinished, shard.file), stop);
    for (const collection::CodeFileEntry& codes : shard.code_files) {
      if (status.ok()) status = LinkOrCopy(JoinPath(from, codes.file), JoinPath(unfinished, codes.file), stop);
    }
    if (status.ok() && shard.field_file.has_value()) {
      const std::string& file = shard.field_file->file;
      status = LinkOrCopy(JoinPath(from, file), JoinPath(unfinished, file), stop);
    }
    if (!status.ok()) return status;
  }
  const absl::StatusOr<uint64_t> sequence = log.Checkpoint(unfinished);
  if (!sequence.ok()) return sequence;
  collection::Manifest copy = manifest;
  copy.log_sequence = manifest.log_sequence.value_or(0);
  absl::Status synchronised;
  if (absl::Status status = collection::PublishManifest(copy, unfinished, &synchronised); !status.ok()) return status;
  if (!synchronised.ok()) return synchronised;
  if (absl::Status status = StopStatus(stop); !status.ok()) return status;
  if (absl::Status status = RenameToNew(unfinished, target.string()); !status.ok()) return status;
  guard.Keep();
  if (absl::Status status = SyncFolder(parent); !status.ok()) {
    const FolderGuard whole(target.string());
    return status;
  }
  return sequence;
}

}  // namespace maxsim::live
