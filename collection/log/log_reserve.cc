#include "collection/log/log_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

// The file grows by at least this size if the disk has room, so that few writes need to grow it.
constexpr uint64_t kStepBytes = uint64_t{8} << 20;

int Allocate(int fd, uint64_t from, uint64_t to) {
  while (::fallocate(fd, 0, static_cast<off_t>(from), static_cast<off_t>(to - from)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

LogReserve::~LogReserve() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status LogReserve::Grow(uint64_t num_bytes) {
  if (num_bytes <= num_bytes_ || !is_supported_) return absl::OkStatus();
  if (fd_ < 0) fd_ = OpenRetrying(path_, O_RDWR | O_CREAT, 0666);
  if (fd_ < 0) return ErrnoStatus(errno, "cannot open", path_);
  for (const uint64_t wanted : {(num_bytes + kStepBytes - 1) / kStepBytes * kStepBytes, num_bytes}) {
    const int error = Allocate(fd_, num_bytes_, wanted);
    if (error == 0) {
      num_bytes_ = wanted;
      return absl::OkStatus();
    }
    is_supported_ = error != EOPNOTSUPP && error != ENOSYS && error != EINVAL;
    if (!is_supported_) return absl::OkStatus();
    if (wanted > num_bytes) continue;
    if (error != ENOSPC && error != EDQUOT && error != EFBIG) return ErrnoStatus(error, "cannot grow", path_);
    return absl::ResourceExhaustedError(
        Cat(path_, ": no room on the disk for the ", num_bytes, " bytes that the next start would need"));
  }
  return absl::OkStatus();
}

void LogReserve::Release() {
  if (fd_ < 0) fd_ = OpenRetrying(path_, O_RDWR);
  // If this fails, opening the database may run out of disk space, and reports that itself.
  if (fd_ >= 0 && ::ftruncate(fd_, 0) == 0) num_bytes_ = 0;
}

}  // namespace maxsim::collection
