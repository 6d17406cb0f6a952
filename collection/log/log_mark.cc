#include "collection/log/log_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>

#include "base/file.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kMarkFileName = "acknowledged";

// Holds what the file is: 24 bytes, written at once.
struct Content {
  uint64_t sequence = 0;
  uint64_t checksum = 0;  // of the sequence
  int64_t process = 0;    // that has the log open, or had it last
};

uint64_t ChecksumOf(uint64_t sequence) { return XXH3_64bits(&sequence, sizeof(sequence)); }

// Returns zeros for a file that is too short or damaged.
Content ReadContent(int fd) {
  Content content;
  if (::pread(fd, &content, sizeof(content), 0) != static_cast<ssize_t>(sizeof(content))) return {};
  if (content.checksum != ChecksumOf(content.sequence)) content.sequence = 0;
  return content;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogMark>> LogMark::Open(const std::string& log_folder, const std::string& folder) {
  std::string path = JoinPath(log_folder, kMarkFileName);
  const int fd = OpenRetrying(path, O_RDWR | O_CREAT, 0666);
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  std::unique_ptr<LogMark> mark(new LogMark(std::move(path), fd));
  int locked = 0;
  do {
    locked = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  const int error = errno;
  const Content content = ReadContent(fd);
  if (locked != 0 && error == EWOULDBLOCK) {
    const bool here = content.process == ::getpid();
    return absl::FailedPreconditionError(
        Cat("the log of ", folder, " is open in ",
            here ? std::string("this process already") : Cat("another process (", content.process, ")")));
  }
  if (locked != 0) return ErrnoStatus(error, "cannot lock", mark->path_);
  mark->sequence_ = content.sequence;
  mark->Note(content.sequence);
  return mark;
}

LogMark::~LogMark() { ::close(fd_); }

void LogMark::Note(uint64_t sequence) {
  sequence_ = sequence;
  const Content content{sequence, ChecksumOf(sequence), ::getpid()};
  // Nothing is done about a failure: the mark then stands at an older write, which is true as well.
  if (::pwrite(fd_, &content, sizeof(content), 0) != static_cast<ssize_t>(sizeof(content))) return;
}

absl::Status LogMark::Sync() {
  if (::fdatasync(fd_) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot synchronise", path_);
}

uint64_t ReadLogMark(const std::string& log_folder) {
  const int fd = OpenRetrying(JoinPath(log_folder, kMarkFileName), O_RDONLY);
  if (fd < 0) return 0;
  const Content content = ReadContent(fd);
  ::close(fd);
  return content.sequence;
}

}  // namespace maxsim::collection
