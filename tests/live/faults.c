// Simulates faults of a disk and a clock for a program that is started with this library in LD_PRELOAD. Calls on
// files under one folder fail, wait or end the process, and the wall clock is moved. MAXSIM_FAULTS_UNDER names the
// folder. MAXSIM_FAULTS names a file, which both the library and the test map into memory: the test switches faults
// on there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// The memory that faults.py writes: it must use the same fields in the same order.
struct control {
  _Atomic int64_t write_error;    // errno of write and its like; 0: none
  _Atomic int64_t sync_error;     // errno of fsync and fdatasync
  _Atomic int64_t hold_syncs;     // while it is not 0, syncs wait
  _Atomic int64_t read_error;     // errno of read and its like
  _Atomic int64_t clock_seconds;  // by which the wall clock is moved
  _Atomic int64_t kill_after;     // the call that changes files, counted down to 0, at which the process is killed
  _Atomic int64_t num_writes, num_syncs, num_held;  // counted here
};

static struct control none;
static struct control* control = &none;
static char under[PATH_MAX];
static size_t under_length;

__attribute__((constructor)) static void map_control(void) {
  const char* path = getenv("MAXSIM_FAULTS");
  const char* folder = getenv("MAXSIM_FAULTS_UNDER");
  if (path == NULL || folder == NULL || strlen(folder) >= sizeof(under)) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return;
  strcpy(under, folder);
  under_length = strlen(folder);
  control = mapped;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_ours(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  return length >= (ssize_t)under_length && under_length > 0 && memcmp(path, under, under_length) == 0;
}

static void count_down(void) {
  int64_t left = atomic_load(&control->kill_after);
  while (left > 0 && !atomic_compare_exchange_weak(&control->kill_after, &left, left - 1)) {
  }
  if (left == 1) kill(getpid(), SIGKILL);
}

// Returns the error with which a write to the file must fail, or 0.
static int write_fault(int file) {
  const int64_t error = atomic_load(&control->write_error);
  if ((error == 0 && atomic_load(&control->kill_after) == 0) || !is_ours(file)) return 0;
  count_down();
  if (error != 0) atomic_fetch_add(&control->num_writes, 1);
  return (int)error;
}

static int sync_fault(int file) {
  if (!is_ours(file)) return 0;
  count_down();
  atomic_fetch_add(&control->num_syncs, 1);
  if (atomic_load(&control->hold_syncs) != 0) {
    atomic_fetch_add(&control->num_held, 1);
    while (atomic_load(&control->hold_syncs) != 0) usleep(1000);
  }
  return (int)atomic_load(&control->sync_error);
}

static int read_fault(int file) {
  const int64_t error = atomic_load(&control->read_error);
  return error != 0 && is_ours(file) ? (int)error : 0;
}

#define FAIL_IF(fault, failure) \
  do {                          \
    const int error = (fault);  \
    if (error != 0) {           \
      errno = error;            \
      return failure;           \
    }                           \
  } while (0)

ssize_t write(int file, const void* data, size_t size) {
  FAIL_IF(write_fault(file), -1);
  return NEXT(write)(file, data, size);
}
ssize_t writev(int file, const struct iovec* parts, int count) {
  FAIL_IF(write_fault(file), -1);
  return NEXT(writev)(file, parts, count);
}
ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  FAIL_IF(write_fault(file), -1);
  return NEXT(pwrite)(file, data, size, offset);
}
ssize_t pwrite64(int file, const void* data, size_t size, off64_t offset) {
  FAIL_IF(write_fault(file), -1);
  return NEXT(pwrite64)(file, data, size, offset);
}
int fallocate(int file, int mode, off_t offset, off_t size) {
  FAIL_IF(write_fault(file), -1);
  return NEXT(fallocate)(file, mode, offset, size);
}
int fallocate64(int file, int mode, off64_t offset, off64_t size) {
  FAIL_IF(write_fault(file), -1);
  return NEXT(fallocate64)(file, mode, offset, size);
}
int posix_fallocate(int file, off_t offset, off_t size) {
  const int error = write_fault(file);
  return error != 0 ? error : NEXT(posix_fallocate)(file, offset, size);
}
int fsync(int file) {
  FAIL_IF(sync_fault(file), -1);
  return NEXT(fsync)(file);
}
int fdatasync(int file) {
  FAIL_IF(sync_fault(file), -1);
  return NEXT(fdatasync)(file);
}
int rename(const char* from, const char* to) {
  if (atomic_load(&control->kill_after) != 0 && strncmp(to, under, under_length) == 0) count_down();
  return NEXT(rename)(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (atomic_load(&control->kill_after) != 0) count_down();
  return NEXT(renameat)(from_folder, from, to_folder, to);
}
int unlink(const char* path) {
  if (atomic_load(&control->kill_after) != 0 && strncmp(path, under, under_length) == 0) count_down();
  return NEXT(unlink)(path);
}
int unlinkat(int folder, const char* path, int flags) {
  if (atomic_load(&control->kill_after) != 0) count_down();
  return NEXT(unlinkat)(folder, path, flags);
}

ssize_t read(int file, void* data, size_t size) {
  FAIL_IF(read_fault(file), -1);
  return NEXT(read)(file, data, size);
}
ssize_t pread(int file, void* data, size_t size, off_t offset) {
  FAIL_IF(read_fault(file), -1);
  return NEXT(pread)(file, data, size, offset);
}
ssize_t pread64(int file, void* data, size_t size, off64_t offset) {
  FAIL_IF(read_fault(file), -1);
  return NEXT(pread64)(file, data, size, offset);
}
#undef fread_unlocked
// RocksDB reads some files through stdio. A preloaded library cannot intercept the system calls that stdio makes, so
// the fault must be in the function of stdio itself.
size_t fread_unlocked(void* data, size_t size, size_t count, FILE* file) {
  const int error = read_fault(fileno(file));
  if (error != 0) {
    errno = error;
    file->_flags |= 0x20;  // _IO_ERR_SEEN, so that ferror() says so
    return 0;
  }
  return NEXT(fread_unlocked)(data, size, count, file);
}

// The wall clock. A wait until a time of the wall clock uses the kernel's clock, so the step is subtracted from that
// time.

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int failed = (int)syscall(SYS_clock_gettime, clock, time);
  if (failed == 0 && clock == CLOCK_REALTIME) time->tv_sec += atomic_load(&control->clock_seconds);
  return failed;
}
int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  const int failed = (int)syscall(SYS_gettimeofday, time, zone);
  if (failed == 0) time->tv_sec += atomic_load(&control->clock_seconds);
  return failed;
}
time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}

// Subtracts the step from a time of the wall clock, and leaves a monotonic time unchanged. A monotonic time is less
// than 1e9 s, because no machine is up for thirty years.
static struct timespec without_step(const struct timespec* until) {
  struct timespec real = *until;
  if (real.tv_sec > 1000000000) real.tv_sec -= atomic_load(&control->clock_seconds);
  return real;
}
int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  static __typeof__(&pthread_cond_timedwait) next;
  if (next == NULL) next = (__typeof__(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (next == NULL) next = NEXT(pthread_cond_timedwait);
  const struct timespec real = without_step(until);
  return next(condition, mutex, &real);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  const struct timespec real = clock == CLOCK_REALTIME ? without_step(until) : *until;
  return NEXT(pthread_cond_clockwait)(condition, mutex, clock, &real);
}
