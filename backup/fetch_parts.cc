#include "backup/fetch_parts.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "backup/store/sha256.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/log/collection_log.h"

namespace maxsim::backup {
namespace {

// One connection to S3 transfers about 50 to 100 MB/s, so several files are fetched at a time.
constexpr size_t kThreads = 8;
constexpr size_t kReadBytes = size_t{16} << 20;

// The disk holds the fetched files and, at the same time, the collections that are made from them.
constexpr uint64_t kDiskCopies = 2;

struct FileToFetch {
  const BackupFile* file = nullptr;
  std::string key;
  std::string path;
};

// Fetches files until none is left or one fails. Thread-safe.
class Fetcher {
 public:
  Fetcher(ObjectStore& store, std::vector<FileToFetch> files, uint64_t total_bytes, const FetchObserver& observer,
          const StopSignal* stop)
      : store_(store), files_(std::move(files)), total_bytes_(total_bytes), observer_(observer), stop_(stop) {}

  absl::Status Run() {
    std::vector<std::thread> threads;
    const auto work = [this] {
      const absl::Status status = Guarded([this] { return FetchAll(); });
      if (!status.ok()) Fail(status);
    };
    for (size_t i = 0; i < std::min(kThreads, files_.size()); ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(&mutex_);
    return status_;
  }

 private:
  absl::Status FetchAll() {
    for (size_t i = next_++; i < files_.size() && !failed_; i = next_++) {
      if (absl::Status status = Fetch(files_[i]); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Fetch(const FileToFetch& wanted) {
    const std::string name = Cat(store_.url(), "/", wanted.key);
    absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(wanted.path);
    if (!output.ok()) return output.status();
    Sha256 hash;
    for (uint64_t offset = 0; offset < wanted.file->num_bytes;) {
      if (absl::Status status = StopStatus(stop_); !status.ok()) return status;
      const auto count = static_cast<size_t>(std::min<uint64_t>(kReadBytes, wanted.file->num_bytes - offset));
      const absl::StatusOr<std::string> bytes = store_.Read(wanted.key, offset, count);
      if (absl::IsNotFound(bytes.status())) return absl::DataLossError(Cat(name, ": is missing"));
      if (!bytes.ok()) return bytes.status();
      if (bytes->size() != count) {
        return absl::DataLossError(
            Cat(name, ": ends after ", offset + bytes->size(), " bytes; the manifest says ", wanted.file->num_bytes));
      }
      hash.Update(*bytes);
      if (absl::Status status = (*output)->Write(*bytes); !status.ok()) return status;
      if (absl::Status status = Count(count); !status.ok()) return status;
      offset += count;
    }
    if (hash.TakeHex() != wanted.file->sha256) {
      return absl::DataLossError(Cat(name, ": is damaged: its bytes do not have the SHA-256 of the manifest"));
    }
    return (*output)->Commit();
  }

  // Reports progress. Returns an error if any thread has failed, so that all threads end soon.
  absl::Status Count(size_t num_bytes) {
    const MutexLock lock(&mutex_);
    num_bytes_ += num_bytes;
    if (!status_.ok()) return status_;
    return observer_ == nullptr ? absl::OkStatus() : observer_(num_bytes_, total_bytes_);
  }

  void Fail(const absl::Status& status) {
    const MutexLock lock(&mutex_);
    failed_ = true;
    if (status_.ok()) status_ = status;
  }

  ObjectStore& store_;
  const std::vector<FileToFetch> files_;
  const uint64_t total_bytes_;
  const FetchObserver& observer_;
  const StopSignal* const stop_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  uint64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Checks that a fetched part is the collection that the manifest describes.
absl::Status CheckPart(const std::string& folder, const BackupManifest& manifest, const BackupPart& part) {
  const std::string what = Cat(kManifestKey, ": the part of ", part.server);
  const absl::StatusOr<collection::Manifest> found = collection::ReadManifest(folder);
  if (!found.ok()) return found.status();
  if (found->name != manifest.collection) {
    return absl::DataLossError(Cat(what, " is of collection ", Quote(found->name), ", not of ", manifest.collection));
  }
  if (found->slots() != part.slots) {
    return absl::DataLossError(
        Cat(what, " has ", collection::DescribeSlots(found->slots()), ", not ", collection::DescribeSlots(part.slots)));
  }
  const absl::StatusOr<std::unique_ptr<collection::CollectionLog>> log = collection::CollectionLog::Open(
      folder, collection::LogFormat::Of(*found), collection::CollectionLog::Mode::kMustExist);
  if (!log.ok()) return log.status();
  if ((*log)->last_sequence() != part.sequence) {
    return absl::DataLossError(Cat(what, " ends with sequence ", (*log)->last_sequence(), ", not ", part.sequence));
  }
  const std::optional<collection::LogStream> stream = (*log)->stream();
  if (manifest.stream.has_value() && stream.has_value() && !MayBeSame(*manifest.stream, *stream)) {
    return absl::DataLossError(Cat(what, " follows ", Describe(*stream), ", not ", Describe(*manifest.stream)));
  }
  return absl::OkStatus();
}

}  // namespace

bool SharesSlots(const BackupPart& part, const collection::SlotRange& slots) {
  return part.slots.first < slots.end && slots.first < part.slots.end;
}

absl::Status CheckDiskFor(const std::string& folder, uint64_t num_bytes) {
  const absl::StatusOr<int64_t> free_bytes = FreeDiskBytes(folder);
  if (!free_bytes.ok()) return free_bytes.status();
  if (num_bytes <= static_cast<uint64_t>(std::max<int64_t>(*free_bytes, 0)) / kDiskCopies) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat(folder, ": ", *free_bytes, " bytes are free, which must be ", kDiskCopies,
                                          " times as many as the backup has, ", num_bytes));
}

absl::StatusOr<std::vector<std::string>> FetchParts(ObjectStore& store, const BackupManifest& manifest,
                                                    const collection::SlotRange& slots, const std::string& folder,
                                                    const FetchObserver& observer, const StopSignal* stop) {
  std::vector<std::string> folders;
  std::vector<size_t> fetched;
  std::vector<FileToFetch> files;
  uint64_t total_bytes = 0;
  for (size_t part = 0; part < manifest.parts.size(); ++part) {
    if (!SharesSlots(manifest.parts[part], slots)) continue;
    fetched.push_back(part);
    const std::string& made = folders.emplace_back(JoinPath(folder, Cat("part-", part)));
    for (const BackupFile& file : manifest.parts[part].files) {
      const std::string path = JoinPath(made, file.path);
      const std::string parent = std::filesystem::path(path).parent_path().string();
      if (absl::Status status = CreateFolders(parent); !status.ok()) return status;
      total_bytes += file.num_bytes;
      files.push_back({.file = &file, .key = KeyOf(manifest.id, part, file.path), .path = path});
    }
  }
  absl::Status status = Fetcher(store, std::move(files), total_bytes, observer, stop).Run();
  for (size_t idx = 0; idx < folders.size() && status.ok(); ++idx) {
    status = CheckPart(folders[idx], manifest, manifest.parts[fetched[idx]]);
  }
  if (!status.ok()) return status;
  return folders;
}

}  // namespace maxsim::backup
