// Linked into each test program, in place of the C library's fallocate(). RocksDB reserves 37 MB of disk space for each
// log that it opens. Where the tests' files are in memory (/dev/shm), the kernel then clears 9,000 pages, which took
// half of the processor time of the tests of logs. RocksDB does not need the space: it ignores a failed reservation.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

// Does nothing for a reservation that keeps the file's size. Passes other calls on to the kernel.
int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (mode == FALLOC_FL_KEEP_SIZE) return 0;
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, size));
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return fallocate(fd, mode, offset, size); }

}  // extern "C"
