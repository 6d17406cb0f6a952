#include "backup/store/folder_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"

namespace maxsim::backup {
namespace {

std::string FolderOf(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }

class FileUpload final : public ObjectUpload {
 public:
  FileUpload(std::unique_ptr<OutputFile> file, std::string path, uint64_t num_bytes)
      : file_(std::move(file)), path_(std::move(path)), num_bytes_(num_bytes) {}

  absl::Status Write(std::string_view bytes) override { return file_->Write(bytes); }

  absl::Status Finish() override {
    if (static_cast<uint64_t>(file_->num_bytes()) != num_bytes_) {
      return absl::InternalError(
          Cat(path_, ": has ", file_->num_bytes(), " bytes, but ", num_bytes_, " were announced"));
    }
    if (absl::Status status = file_->Commit(); !status.ok()) return status;
    return SyncFolder(FolderOf(path_));
  }

 private:
  const std::unique_ptr<OutputFile> file_;
  const std::string path_;
  const uint64_t num_bytes_;
};

class FolderStore final : public ObjectStore {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)), url_(Cat("file://", folder_)) {}

  absl::Status Put(const std::string& key, std::string_view bytes) override {
    const absl::StatusOr<std::unique_ptr<ObjectUpload>> upload = BeginUpload(key, bytes.size());
    if (!upload.ok()) return upload.status();
    if (absl::Status status = (*upload)->Write(bytes); !status.ok()) return status;
    return (*upload)->Finish();
  }

  absl::StatusOr<std::unique_ptr<ObjectUpload>> BeginUpload(const std::string& key, uint64_t num_bytes) override {
    const std::string path = JoinPath(folder_, key);
    if (absl::Status status = CreateFolders(FolderOf(path)); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
    if (!file.ok()) return file.status();
    return std::make_unique<FileUpload>(*std::move(file), path, num_bytes);
  }

  absl::StatusOr<std::string> Read(const std::string& key, uint64_t offset, size_t max_bytes) override {
    const absl::StatusOr<InputFile> file = InputFile::Open(JoinPath(folder_, key));
    if (!file.ok()) return file.status();
    const auto size = static_cast<uint64_t>(file->size());
    if (offset >= size) return std::string();
    std::string bytes(static_cast<size_t>(std::min<uint64_t>(max_bytes, size - offset)), '\0');
    absl::Status status = file->ReadAt(static_cast<int64_t>(offset), bytes.data(), bytes.size());
    if (!status.ok()) return status;
    return bytes;
  }

  absl::StatusOr<std::vector<StoredObject>> List(const std::string& prefix, size_t max_objects) override {
    std::vector<StoredObject> objects;
    std::error_code error;
    std::filesystem::recursive_directory_iterator entry(folder_, error);
    if (error == std::errc::no_such_file_or_directory) return objects;
    for (; !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
      const bool is_folder = entry->is_directory(error);
      if (error) break;
      if (is_folder) continue;
      std::string key = entry->path().lexically_relative(folder_).generic_string();
      if (!key.starts_with(prefix)) continue;
      const uint64_t num_bytes = entry->file_size(error);
      if (error) break;
      objects.push_back({.key = std::move(key), .num_bytes = num_bytes});
    }
    if (error) return ErrnoStatus(error.value(), "cannot list", folder_);
    std::sort(objects.begin(), objects.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    if (objects.size() > max_objects) objects.resize(max_objects);
    return objects;
  }

  const std::string& url() const override { return url_; }

 private:
  const std::string folder_;
  const std::string url_;
};

}  // namespace

std::unique_ptr<ObjectStore> MakeFolderStore(std::string folder) {
  return std::make_unique<FolderStore>(std::move(folder));
}

}  // namespace maxsim::backup
