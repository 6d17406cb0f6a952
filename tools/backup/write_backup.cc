#include "tools/backup/write_backup.h"

#include <limits>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "collection/manifest.h"
#include "collection/partition/snapshot_path.h"

namespace maxsim::backup {

absl::Status CheckStoreIsEmpty(ObjectStore& store) {
  const absl::StatusOr<std::vector<StoredObject>> manifest = store.List(kManifestKey, 1);
  if (!manifest.ok()) return manifest.status();
  if (!manifest->empty()) {
    return absl::AlreadyExistsError(Cat(store.url(), ": there is a backup already; name a new prefix"));
  }
  const absl::StatusOr<std::vector<StoredObject>> found = store.List("", 1);
  if (!found.ok()) return found.status();
  if (found->empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(Cat(store.url(), ": there is ", Quote(found->front().key),
                                      ", perhaps of a backup that runs or was interrupted; name a new prefix"));
}

std::string NewBackupId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

absl::Status PartWriter::BeginFile(const std::string& path, uint64_t num_bytes, uint64_t xxh3) {
  if (upload_ != nullptr) {
    return absl::InternalError(
        Cat("the file ", Quote(path), " begins ", bytes_left_, " bytes before the end of ", files_.back().path));
  }
  if (const std::string problem = collection::SnapshotPathProblem(path); !problem.empty()) {
    return absl::InternalError(Cat("the path ", Quote(path), " ", problem));
  }
  if (paths_.size() >= service::kMaxSnapshotFiles) {
    return absl::InternalError(Cat("the snapshot has more files than the limit ", service::kMaxSnapshotFiles));
  }
  if (!paths_.insert(path).second) return absl::InternalError(Cat("the file ", path, " comes twice"));
  if (num_bytes > total_bytes_ - num_bytes_) {
    return absl::InternalError(Cat("the file ", path, " has ", num_bytes, " bytes, but of the announced ", total_bytes_,
                                   " only ", total_bytes_ - num_bytes_, " are left"));
  }
  absl::StatusOr<std::unique_ptr<ObjectUpload>> upload = store_.BeginUpload(KeyOf(id_, part_, path), num_bytes);
  if (!upload.ok()) return upload.status();
  upload_ = *std::move(upload);
  files_.push_back({.path = path, .num_bytes = num_bytes, .sha256 = ""});
  bytes_left_ = num_bytes;
  wanted_xxh3_ = xxh3;
  xxh3_.Reset();
  return bytes_left_ == 0 ? EndFile() : absl::OkStatus();
}

absl::Status PartWriter::TakeData(std::string_view bytes) {
  if (upload_ == nullptr) return absl::InternalError(Cat(bytes.size(), " bytes of data belong to no file"));
  if (bytes.empty() || bytes.size() > bytes_left_) {
    return absl::InternalError(
        Cat("a message has ", bytes.size(), " bytes of ", files_.back().path, "; must be 1 to ", bytes_left_));
  }
  if (absl::Status status = upload_->Write(bytes); !status.ok()) return status;
  xxh3_.Update(bytes.data(), bytes.size());
  sha256_.Update(bytes);
  bytes_left_ -= bytes.size();
  num_bytes_ += bytes.size();
  return bytes_left_ == 0 ? EndFile() : absl::OkStatus();
}

absl::Status PartWriter::EndFile() {
  BackupFile& file = files_.back();
  if (xxh3_.value() != wanted_xxh3_) {
    return absl::DataLossError(Cat("the bytes of the file ", file.path, " do not have its checksum"));
  }
  if (absl::Status status = upload_->Finish(); !status.ok()) return status;
  upload_ = nullptr;
  file.sha256 = sha256_.TakeHex();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BackupFile>> PartWriter::End() {
  if (upload_ != nullptr) {
    return absl::DataLossError(
        Cat("the snapshot ends ", bytes_left_, " bytes before the end of the file ", files_.back().path));
  }
  if (num_bytes_ != total_bytes_) {
    return absl::DataLossError(Cat("the snapshot has ", num_bytes_, " bytes, but ", total_bytes_, " were announced"));
  }
  if (paths_.count(std::string(collection::kManifestFileName)) == 0) {
    return absl::DataLossError(Cat("the snapshot has no file ", collection::kManifestFileName));
  }
  return std::move(files_);
}

absl::Status PublishBackup(ObjectStore& store, const BackupManifest& manifest) {
  const std::string text = FormatManifest(manifest);
  if (text.size() > kMaxManifestBytes) {
    return absl::ResourceExhaustedError(
        Cat(store.url(), "/", kManifestKey, ": has ", text.size(), " bytes, more than the limit ", kMaxManifestBytes));
  }
  // A restore reads the manifest, so one that cannot be parsed must not be stored.
  if (absl::Status status = ParseManifest(text).status(); !status.ok()) {
    return absl::InternalError(Cat(store.url(), "/", std::string(status.message())));
  }
  const absl::StatusOr<std::vector<StoredObject>> stored = store.List("", std::numeric_limits<size_t>::max());
  if (!stored.ok()) return stored.status();
  std::map<std::string, uint64_t> sizes;
  for (const StoredObject& object : *stored) sizes[object.key] = object.num_bytes;
  if (sizes.count(kManifestKey) > 0) {
    return absl::AlreadyExistsError(
        Cat(store.url(), ": another backup was written there meanwhile; name a new prefix"));
  }
  for (size_t part = 0; part < manifest.parts.size(); ++part) {
    for (const BackupFile& file : manifest.parts[part].files) {
      const std::string key = KeyOf(manifest.id, part, file.path);
      const auto found = sizes.find(key);
      if (found != sizes.end() && found->second == file.num_bytes) continue;
      return absl::DataLossError(
          Cat(store.url(), "/", key, ": ",
              found == sizes.end() ? std::string("is missing") : Cat("has ", found->second, " bytes"), "; ",
              file.num_bytes, " were written"));
    }
  }
  return store.Put(kManifestKey, text);
}

}  // namespace maxsim::backup
