#include "collection/partition/snapshot_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/partition/new_folder.h"

namespace maxsim::collection {
namespace {

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
  // Copies the file if a hard link is impossible: across file systems, on file systems without links, beyond a file's
  // maximum number of links, or to files of other users.
  if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) return CopyFile(from, to, stop);
  if (errno == ENOENT) return absl::FailedPreconditionError(Cat(from, ": is gone: two newer generations replaced it"));
  return ErrnoStatus(errno, "cannot link", from);
}

}  // namespace

absl::StatusOr<uint64_t> MakeSnapshotFolder(const std::string& from, const Manifest& manifest, const CollectionLog& log,
                                            const std::string& to, const StopSignal* stop) {
  const absl::StatusOr<std::unique_ptr<NewFolder>> made = NewFolder::Begin(to);
  if (!made.ok()) return made.status();
  const std::string& unfinished = (*made)->path();
  for (const ShardEntry& shard : manifest.shards) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    absl::Status status = LinkOrCopy(JoinPath(from, shard.file), JoinPath(unfinished, shard.file), stop);
    for (const CodeFileEntry& codes : shard.code_files) {
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
  Manifest copy = manifest;
  copy.log_sequence = manifest.log_sequence.value_or(0);
  absl::Status synchronised;
  if (absl::Status status = PublishManifest(copy, unfinished, &synchronised); !status.ok()) return status;
  if (!synchronised.ok()) return synchronised;
  if (absl::Status status = StopStatus(stop); !status.ok()) return status;
  if (absl::Status status = (*made)->Publish(); !status.ok()) return status;
  return sequence;
}

}  // namespace maxsim::collection
