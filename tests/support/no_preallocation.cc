// Replaces the C library's fallocate() in test programs. RocksDB reserves 37 MB of disk space for each log. If the
// tests' files are in memory (/dev/shm), the kernel clears the memory for each reservation, which took half of the
// processor time of the tests of logs. RocksDB ignores a failed reservation.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

// Ignores a request to reserve space that keeps the file's size. Passes other calls on to the kernel.
int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (mode == FALLOC_FL_KEEP_SIZE) return 0;
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, size));
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return fallocate(fd, mode, offset, size); }

}  // extern "C"
