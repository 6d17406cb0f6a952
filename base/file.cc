#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace maxsim {
namespace {

constexpr size_t kMaxStreamBytes = size_t{64} << 20;  // the most bytes to read from a pipe or a device

// If the error says that there are no free descriptors, returns a text with the limit and how to raise it. Returns ""
// for other errors.
std::string Remedy(int error) {
  if (error == ENFILE) return " (of all processes together; sysctl fs.file-max raises it)";
  if (error != EMFILE) return "";
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return Cat(" (the limit of this process is ", limit.rlim_cur,
             " descriptors; `ulimit -n`, or LimitNOFILE= of its systemd unit, raises it)");
}

}  // namespace

int OpenRetrying(const std::string& path, int flags, mode_t mode) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "something else";
}

absl::Status ErrnoStatus(int error, std::string_view what, std::string_view path) {
  const std::string message = Cat(what, " ", path, ": ", std::generic_category().message(error), Remedy(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // With O_NONBLOCK, opening a pipe that has no writer does not hang. The flag means nothing for regular files.
  const int fd = OpenRetrying(path, O_RDONLY | O_NONBLOCK);
  return Adopt(fd, errno, path);
}

absl::StatusOr<InputFile> InputFile::Adopt(int fd, int error, const std::string& path) {
  if (fd < 0) {
    // A socket cannot be opened at all.
    if (error == ENXIO) return absl::InvalidArgumentError(Cat(path, ": not a regular file, but a socket or a device"));
    return ErrnoStatus(error, "cannot open", path);
  }
  struct stat info;
  if (::fstat(fd, &info) != 0) {
    const int stat_error = errno;
    ::close(fd);
    return ErrnoStatus(stat_error, "cannot stat", path);
  }
  InputFile file(path, fd, info.st_size, info.st_mtim);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(Cat(path, ": not a regular file, but ", KindOf(info.st_mode)));
  }
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      modified_(other.modified_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(modified_, other.modified_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status InputFile::ReadAt(int64_t offset, void* out, size_t count) const {
  char* next = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t done = ::pread(fd_, next, std::min(count, size_t{1} << 30), offset);
    if (done < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "cannot read", path_);
    }
    if (done == 0) {
      return absl::DataLossError(Cat(path_, ": ends at byte ", offset, ", but ", count, " more were expected"));
    }
    next += done;
    offset += done;
    count -= static_cast<size_t>(done);
  }
  return absl::OkStatus();
}

absl::Status InputFile::CheckUnchanged() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) return ErrnoStatus(errno, "cannot stat", path_);
  if (info.st_size != size_) {
    return absl::DataLossError(Cat(path_, ": changed while it was in use: ", size_, " bytes, now ", info.st_size));
  }
  if (info.st_mtim.tv_sec != modified_.tv_sec || info.st_mtim.tv_nsec != modified_.tv_nsec) {
    return absl::DataLossError(Cat(path_, ": changed while it was in use: another program wrote to it"));
  }
  return absl::OkStatus();
}

namespace {

// Reads bytes [begin, end) of the file into the same range of `bytes`, which has room for the whole file.
absl::Status ReadBlocks(const InputFile& file, size_t begin, size_t end, uint8_t* bytes, const StopSignal* stop) {
  while (begin < end) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    const size_t count = std::min(kStopBlockBytes, end - begin);
    if (absl::Status status = file.ReadAt(static_cast<int64_t>(begin), bytes + begin, count); !status.ok()) {
      return status;
    }
    begin += count;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileBytes> FileBytes::Map(const InputFile& file) { return MapRange(file, 0, file.size()); }

absl::StatusOr<FileBytes> FileBytes::MapRange(const InputFile& file, int64_t begin, int64_t end,
                                              const StopSignal* stop) {
  const auto size = static_cast<size_t>(file.size());
  if (size == 0) return FileBytes(nullptr, 0);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = (static_cast<size_t>(begin) + page - 1) / page * page;
  // If the range ends at the end of the file, the whole last page of the file is mapped.
  const size_t last = static_cast<size_t>(end) == size ? size : static_cast<size_t>(end) / page * page;
  // Reserves one range of addresses for the whole file. The parts of this range are then mapped or filled.
  void* const data = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "no addresses to map", file.path());
  FileBytes bytes(static_cast<uint8_t*>(data), size);
  if (first < last) {
    bytes.mapped_ = bytes.data_ + first;
    bytes.mapped_size_ = last - first;
    if (::mmap(bytes.mapped_, bytes.mapped_size_, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.fd(),
               static_cast<off_t>(first)) == MAP_FAILED) {
      return ErrnoStatus(errno, "cannot map", file.path());
    }
    bytes.guard_ = std::make_unique<MappingGuard>(bytes.mapped_, bytes.mapped_size_);
  }
  const std::pair<size_t, size_t> copied[] = {{0, first < last ? first : size}, {first < last ? last : size, size}};
  for (const auto& [copy_begin, copy_end] : copied) {
    if (copy_begin == copy_end) continue;
    const size_t count = copy_end - copy_begin;
    if (::mmap(bytes.data_ + copy_begin, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == MAP_FAILED) {
      return ErrnoStatus(errno, Cat("no memory for ", count, " bytes of"), file.path());
    }
    // Ids and offsets are read in random order. Each such read may have to walk the page table, which huge pages make
    // shorter. madvise only gives advice, so errors are ignored.
    ::madvise(bytes.data_ + copy_begin, count, MADV_HUGEPAGE);
    if (absl::Status status = ReadBlocks(file, copy_begin, copy_end, bytes.data_, stop); !status.ok()) return status;
  }
  return bytes;
}

absl::StatusOr<FileBytes> FileBytes::Copy(const InputFile& file, const StopSignal* stop) {
  const auto size = static_cast<size_t>(file.size());
  if (size == 0) return FileBytes(nullptr, 0);
  // An anonymous mapping is aligned to pages, and reports missing memory by an error code.
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, Cat("no memory for the ", size, " bytes of"), file.path());
  }
  FileBytes bytes(static_cast<uint8_t*>(data), size);
  ::madvise(data, size, MADV_HUGEPAGE);  // only advice, so errors are ignored
  if (absl::Status status = ReadBlocks(file, 0, size, bytes.data_, stop); !status.ok()) return status;
  return bytes;
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_size_(std::exchange(other.mapped_size_, 0)),
      guard_(std::move(other.guard_)) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_size_, other.mapped_size_);
  std::swap(guard_, other.guard_);
  return *this;
}

FileBytes::~FileBytes() {
  guard_.reset();
  if (data_ != nullptr) ::munmap(data_, size_);
}

void FileBytes::Unmap() {
  guard_.reset();
  if (mapped_ == nullptr) return;
  // The addresses stay reserved until the destructor unmaps everything. If this call fails, the bytes stay mapped
  // until then, too.
  (void)::mmap(mapped_, mapped_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  mapped_ = nullptr;
  mapped_size_ = 0;
}

std::string_view OtherKind(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) ? std::string_view() : KindOf(info.st_mode);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t max_bytes) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  return ReadSmallFile(*file, max_bytes);
}

absl::StatusOr<std::string> ReadSmallFile(const InputFile& file, int64_t max_bytes) {
  if (file.size() > max_bytes) {
    return absl::InvalidArgumentError(
        Cat(file.path(), ": ", file.size(), " bytes, more than the limit of ", max_bytes));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  if (absl::Status status = file.ReadAt(0, text.data(), text.size()); !status.ok()) return status;
  return text;
}

std::optional<std::string> ReadToEnd(const std::string& path) {
  // With O_NONBLOCK, opening a named pipe without a writer does not wait, and reading from it reports its end.
  const int fd = OpenRetrying(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  // If a pipe has a writer, reading waits for its bytes.
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  struct stat info = {};
  const size_t max_bytes = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? SIZE_MAX : kMaxStreamBytes;
  std::string text;
  char block[16 * 1024];
  ssize_t count = 0;
  while ((count = ::read(fd, block, sizeof(block))) != 0) {
    if (count > 0 && text.size() + static_cast<size_t>(count) > max_bytes) {
      count = -1;
      errno = EFBIG;
      break;
    }
    if (count > 0) {
      text.append(block, static_cast<size_t>(count));
    } else if (errno != EINTR) {
      break;
    }
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  if (count < 0) return std::nullopt;
  return text;
}

Checksum::Checksum() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

void Checksum::Update(const void* data, size_t count) {
  if (count != 0) XXH3_128bits_update(state_.get(), data, count);
}

std::string Checksum::Format() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(kChecksumPrefix);
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool IsChecksum(std::string_view text) {
  if (text.substr(0, kChecksumPrefix.size()) != kChecksumPrefix) return false;
  text.remove_prefix(kChecksumPrefix.size());
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder) {
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return ErrnoStatus(errno, "cannot list folder", folder);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir)) {
    struct stat info;
    if (::fstatat(::dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
      names.emplace_back(entry->d_name);
    }
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<int64_t> FreeDiskBytes(const std::string& folder) {
  struct statvfs info;
  if (::statvfs(folder.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot ask for free space of", folder);
  const auto bytes = static_cast<unsigned __int128>(info.f_bavail) * info.f_frsize;
  return static_cast<int64_t>(std::min<unsigned __int128>(bytes, INT64_MAX));
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

}  // namespace maxsim
