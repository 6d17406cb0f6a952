#include "server/service/bootstrap/snapshot_receiver.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/manifest.h"
#include "collection/partition/snapshot_path.h"

namespace maxsim::service {
namespace {

absl::Status WrongSnapshot(const std::string& problem) { return absl::InternalError(problem); }

}  // namespace

absl::Status SnapshotReceiver::Take(const v1::ReadSnapshotResponse& message) {
  switch (message.part_case()) {
    case v1::ReadSnapshotResponse::kFile:
      return BeginFile(message.file());
    case v1::ReadSnapshotResponse::kData:
      return TakeData(message.data());
    case v1::ReadSnapshotResponse::kBegin:
      return WrongSnapshot("the snapshot begins a second time");
    case v1::ReadSnapshotResponse::PART_NOT_SET:
      break;
  }
  return WrongSnapshot("a message of the snapshot has neither a file nor data");
}

absl::Status SnapshotReceiver::BeginFile(const v1::SnapshotFile& file) {
  if (file_ != nullptr) {
    return WrongSnapshot(
        Cat("the file ", Quote(file.path()), " begins ", bytes_left_, " bytes before the end of ", path_));
  }
  if (const std::string problem = collection::SnapshotPathProblem(file.path()); !problem.empty()) {
    return WrongSnapshot(Cat("the path ", Quote(file.path()), " ", problem));
  }
  if (paths_.size() >= kMaxSnapshotFiles) {
    return WrongSnapshot(Cat("the snapshot has more files than the limit ", kMaxSnapshotFiles));
  }
  if (!paths_.insert(file.path()).second) return WrongSnapshot(Cat("the file ", file.path(), " comes twice"));
  if (file.bytes() > total_bytes_ - num_bytes_) {
    return WrongSnapshot(Cat("the file ", file.path(), " has ", file.bytes(), " bytes, but of the announced ",
                             total_bytes_, " only ", total_bytes_ - num_bytes_, " are left"));
  }
  const std::string path = JoinPath(folder_, file.path());
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(parent, error);
  if (error && !std::filesystem::is_directory(parent))
    return ErrnoStatus(error.value(), "cannot create", parent.string());
  if (std::filesystem::exists(path, error))
    return WrongSnapshot(Cat("the file ", file.path(), " is a folder of other files"));
  absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(path);
  if (!output.ok()) return output.status();
  file_ = *std::move(output);
  path_ = file.path();
  bytes_left_ = file.bytes();
  wanted_hash_ = file.xxh3();
  hash_.Reset();
  return bytes_left_ == 0 ? EndFile() : absl::OkStatus();
}

absl::Status SnapshotReceiver::TakeData(const std::string& data) {
  if (file_ == nullptr) return WrongSnapshot(Cat(data.size(), " bytes of data belong to no file"));
  if (data.empty() || data.size() > kMaxSnapshotDataBytes) {
    return WrongSnapshot(Cat("a message has ", data.size(), " bytes of data; must be 1 to ", kMaxSnapshotDataBytes));
  }
  if (data.size() > bytes_left_) {
    return WrongSnapshot(
        Cat("the file ", path_, " has ", data.size() - bytes_left_, " bytes more than were announced"));
  }
  if (absl::Status status = file_->Write(data); !status.ok()) return status;
  hash_.Update(data.data(), data.size());
  bytes_left_ -= data.size();
  num_bytes_ += data.size();
  return bytes_left_ == 0 ? EndFile() : absl::OkStatus();
}

absl::Status SnapshotReceiver::EndFile() {
  if (hash_.value() != wanted_hash_) {
    return absl::DataLossError(Cat("the bytes of the file ", path_, " do not have its checksum"));
  }
  absl::Status status = file_->Commit();
  file_ = nullptr;
  return status;
}

absl::Status SnapshotReceiver::End() const {
  if (file_ != nullptr) {
    return absl::DataLossError(Cat("the snapshot ends ", bytes_left_, " bytes before the end of the file ", path_));
  }
  if (num_bytes_ != total_bytes_) {
    return absl::DataLossError(Cat("the snapshot has ", num_bytes_, " bytes, but ", total_bytes_, " were announced"));
  }
  if (paths_.count(std::string(collection::kManifestFileName)) == 0) {
    return absl::DataLossError(Cat("the snapshot has no file ", collection::kManifestFileName));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::service
