#include "collection/log/log_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kMarkFileName = "acknowledged";

// The contents of the file. Version 0.2 wrote only the first 24 bytes.
struct MarkBytes {
  uint64_t sequence = 0;
  uint64_t sequence_checksum = 0;
  int64_t process = 0;  // the process that has the log open, or had it last
  WrittenFiles files;
  uint64_t files_checksum = 0;
};
static_assert(sizeof(MarkBytes) == 72);

uint64_t ChecksumOf(uint64_t sequence) { return XXH3_64bits(&sequence, sizeof(sequence)); }
uint64_t ChecksumOf(const WrittenFiles& files) { return XXH3_64bits(&files, sizeof(files)); }

// Values that are missing or damaged are zero.
MarkBytes ReadMark(int fd) {
  MarkBytes bytes;
  const ssize_t size = ::pread(fd, &bytes, sizeof(bytes), 0);
  if (size < static_cast<ssize_t>(offsetof(MarkBytes, files))) return {};
  if (bytes.sequence_checksum != ChecksumOf(bytes.sequence)) bytes.sequence = 0;
  if (size < static_cast<ssize_t>(sizeof(bytes)) || bytes.files_checksum != ChecksumOf(bytes.files)) bytes.files = {};
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogMark>> LogMark::Open(const std::string& log_folder, const std::string& folder) {
  std::string path = JoinPath(log_folder, kMarkFileName);
  const int fd = OpenRetrying(path, O_RDWR | O_CREAT, 0666);
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  std::unique_ptr<LogMark> mark(new LogMark(std::move(path), folder, fd));
  int locked = 0;
  do {
    locked = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  const int error = errno;
  const MarkBytes bytes = ReadMark(fd);
  if (locked != 0 && error == EWOULDBLOCK) {
    const bool here = bytes.process == ::getpid();
    return absl::FailedPreconditionError(
        Cat("the log of ", folder, " is open in ",
            here ? std::string("this process already") : Cat("another process (", bytes.process, ")")));
  }
  if (locked != 0) return ErrnoStatus(error, "cannot lock", mark->path_);
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot look at", mark->path_);
  mark->device_ = info.st_dev;
  mark->inode_ = info.st_ino;
  const MutexLock lock(&mark->mutex_);
  mark->sequence_ = bytes.sequence;
  mark->files_ = bytes.files;
  mark->Write();
  return mark;
}

LogMark::~LogMark() { ::close(fd_); }

uint64_t LogMark::sequence() const {
  const MutexLock lock(&mutex_);
  return sequence_;
}

WrittenFiles LogMark::files() const {
  const MutexLock lock(&mutex_);
  return files_;
}

void LogMark::Note(uint64_t sequence) {
  const MutexLock lock(&mutex_);
  sequence_ = sequence;
  Write();
}

void LogMark::NoteWal(uint64_t number, uint64_t num_bytes) {
  const MutexLock lock(&mutex_);
  files_.wal_number = number;
  files_.wal_bytes = num_bytes;
  Write();
}

void LogMark::NoteWrite(uint64_t sequence, uint64_t wal_number, uint64_t wal_bytes) {
  const MutexLock lock(&mutex_);
  sequence_ = sequence;
  files_.wal_number = wal_number;
  files_.wal_bytes = wal_bytes;
  Write();
}

void LogMark::NoteManifest(uint64_t number, uint64_t num_bytes, uint64_t hash) {
  const MutexLock lock(&mutex_);
  // Ignores a length that is older than the known one: RocksDB's threads may call this in the wrong order.
  const bool is_older =
      number < files_.manifest_number || (number == files_.manifest_number && num_bytes < files_.manifest_bytes);
  if (is_older) return;
  files_.manifest_number = number;
  files_.manifest_bytes = num_bytes;
  files_.manifest_hash = hash;
  Write();
}

void LogMark::Write() {
  const MarkBytes bytes{sequence_, ChecksumOf(sequence_), ::getpid(), files_, ChecksumOf(files_)};
  // Ignores a failure: the mark then names an older write, which is still a valid lower limit.
  if (::pwrite(fd_, &bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) return;
}

absl::Status LogMark::CheckInPlace() const {
  struct stat info = {};
  if (::stat(path_.c_str(), &info) == 0) {
    if (info.st_dev == device_ && info.st_ino == inode_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        Cat("the log of ", folder_, " was replaced while it was open (", path_, " is another file); load it again"));
  }
  if (errno != ENOENT && errno != ENOTDIR) return ErrnoStatus(errno, "cannot look at", path_);
  return absl::FailedPreconditionError(Cat("the log of ", folder_, " was deleted or moved while it was open (", path_,
                                           " is missing); put it back, or unload the collection"));
}

absl::Status LogMark::Sync() {
  if (::fdatasync(fd_) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot synchronise", path_);
}

LogMarkContents ReadLogMark(const std::string& log_folder) {
  const int fd = OpenRetrying(JoinPath(log_folder, kMarkFileName), O_RDONLY);
  if (fd < 0) return {};
  const MarkBytes bytes = ReadMark(fd);
  ::close(fd);
  return {bytes.sequence, bytes.files};
}

}  // namespace maxsim::collection
