#include "server/service/bootstrap/bootstrap_folders.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/output_file.h"
#include "base/text.h"
#include "server/observability/log_event.h"

namespace maxsim::service {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBootstrapPrefix = ".maxsimd-bootstrap-";
constexpr std::string_view kReadingPrefix = ".maxsimd-reading-";
constexpr char kUnfinished[] = "collection";
// The file in the work folder that has the path of the folder that is replaced.
constexpr char kReplaced[] = "replaced";
constexpr char kRemoved[] = "removed";
// The file in the collection's new folder that says that a bootstrap made it.
constexpr char kMark[] = ".maxsimd-bootstrap";
constexpr int64_t kMaxPathBytes = 1 << 16;

bool HasEntry(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Write(text); !status.ok()) return status;
  return (*file)->Commit();
}

// Removes what is left over of the bootstrap that made `target`. If `target` is in the list of created collections
// (`is_listed`), removes the folder that it replaced, otherwise `target` itself. Removes the work folder last, because
// as long as it exists, the next start removes the rest.
void RemoveRest(const std::string& root, const std::string& work, const std::string& target, bool is_listed) {
  if (is_listed) {
    const absl::StatusOr<std::string> replaced = ReadSmallFile(JoinPath(work, kReplaced), kMaxPathBytes);
    if (replaced.ok() && *replaced != root && *replaced != target && IsBeneath(root, *replaced))
      RemoveFolder(*replaced);
    std::error_code ignored;
    fs::remove(JoinPath(target, kMark), ignored);
  } else if (HasEntry(JoinPath(target, kMark))) {
    // Move the folder into the work folder before removing it, because the work folder is always removed. If the
    // process died while it removed the folder in place, the mark could be gone and the rest would stay for ever.
    std::error_code error;
    fs::rename(target, JoinPath(work, kRemoved), error);
    if (error) RemoveFolder(target);
  }
  RemoveFolder(work);
}

// Returns random digits, which are the same as long as the process runs. Process ids are no substitute: in containers
// every process may have the same one.
const std::string& OfThisProcess() {
  static const std::string digits = [] {
    std::random_device device;
    const uint64_t high = device();
    return absl::StrFormat("%016x", high << 32 | device());
  }();
  return digits;
}

// Returns the names in a folder that begin with `prefix`.
std::vector<std::string> NamesWith(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  return names;
}

}  // namespace

void RemoveFolder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    log::Write(spdlog::level::warn, "folder_not_removed", {{"folder", path}, {"error", error.message()}});
  }
}

absl::StatusOr<BootstrapFolders> BootstrapFolders::Make(const std::string& root, const std::string& name,
                                                        const std::set<std::string>& taken) {
  for (int number = 1;; ++number) {
    const std::string of_target = Cat(name, ".", number);
    const std::string target = JoinPath(root, of_target);
    if (taken.count(target) > 0 || HasEntry(target)) continue;
    const std::string work = JoinPath(root, Cat(kBootstrapPrefix, of_target));
    if (::mkdir(work.c_str(), 0777) == 0) return BootstrapFolders(root, work, target);
    if (errno != EEXIST) return ErrnoStatus(errno, "cannot create folder", work);
  }
}

BootstrapFolders::BootstrapFolders(BootstrapFolders&& other) noexcept
    : root_(std::move(other.root_)),
      work_(std::exchange(other.work_, "")),
      target_(std::move(other.target_)),
      is_kept_(other.is_kept_) {}

BootstrapFolders::~BootstrapFolders() {
  if (!work_.empty() && !is_kept_) RemoveRest(root_, work_, target_, /*is_listed=*/false);
}

void BootstrapFolders::Finish() {
  is_kept_ = true;
  RemoveRest(root_, work_, target_, /*is_listed=*/true);
}

std::string BootstrapFolders::unfinished() const { return JoinPath(work_, kUnfinished); }

absl::Status BootstrapFolders::MoveToTarget() {
  if (absl::Status status = WriteFile(JoinPath(unfinished(), kMark), ""); !status.ok()) return status;
  if (absl::Status status = SyncFolder(unfinished()); !status.ok()) return status;
  if (::renameat2(AT_FDCWD, unfinished().c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return absl::AlreadyExistsError(Cat(target_, ": exists already"));
    // The file system does not support RENAME_NOREPLACE. A plain rename fails too, unless the target is an empty
    // folder.
    if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(errno, "cannot rename", unfinished());
    if (HasEntry(target_)) return absl::AlreadyExistsError(Cat(target_, ": exists already"));
    if (::rename(unfinished().c_str(), target_.c_str()) != 0) {
      return ErrnoStatus(errno, "cannot rename", unfinished());
    }
  }
  return SyncFolder(root_);
}

absl::Status BootstrapFolders::NoteReplaced(const std::string& path) {
  if (absl::Status status = WriteFile(JoinPath(work_, kReplaced), path); !status.ok()) return status;
  return SyncFolder(work_);
}

void RemoveLeftovers(const std::string& root, const std::set<std::string>& listed) {
  for (const std::string& name : NamesWith(root, kBootstrapPrefix)) {
    const std::string target = JoinPath(root, std::string_view(name).substr(kBootstrapPrefix.size()));
    const bool is_listed = listed.count(target) > 0;
    log::Write(spdlog::level::info, "bootstrap_left_over", {{"folder", target}, {"is_served", is_listed}});
    RemoveRest(root, JoinPath(root, name), target, is_listed);
  }
  RemoveReadingLeftovers(root);
}

std::string NewReadingName() {
  static std::atomic<uint64_t> num_made{0};
  return Cat(kReadingPrefix, OfThisProcess(), "-", num_made.fetch_add(1));
}

void RemoveReadingLeftovers(const std::string& folder) {
  // A snapshot is first made under a name with one more dot in front.
  for (const std::string& prefix : {Cat(kReadingPrefix), Cat(".", kReadingPrefix)}) {
    for (const std::string& name : NamesWith(folder, prefix)) {
      if (!name.starts_with(Cat(prefix, OfThisProcess()))) RemoveFolder(JoinPath(folder, name));
    }
  }
}
}  // namespace maxsim::service
