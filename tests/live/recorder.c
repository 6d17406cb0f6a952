// Records the changes that a program makes to the files under one folder. The program must be started with this
// library in LD_PRELOAD. MAXSIM_RECORD_UNDER names the folder, without symbolic links. MAXSIM_RECORD names the file
// that gets the entries, which must be outside of the folder. From the entries disk.py computes what a disk may hold
// after a power cut.
//
// The library writes an entry before the program's call returns. Entries have the order of the calls, because one
// lock is held during the call and the writing of its entry. Syncs are recorded but not carried out, so that tests do
// not depend on the speed of a disk. A change that no kind of entry describes, such as by a writable shared mapping,
// becomes an entry kUnknown, at which disk.py fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

// disk.py has the same numbers.
enum kind { kCreate = 1, kMakeFolder, kRename, kLink, kRemove, kWrite, kResize, kAllocate, kSync, kUnknown };

// The head of an entry. The first path, the second path and the data follow it.
struct entry {
  uint32_t kind;
  uint32_t path_bytes, second_path_bytes;
  uint32_t unused;
  uint64_t inode;
  int64_t offset;  // of kResize and kAllocate: the size
  uint64_t data_bytes;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static char under[PATH_MAX];
static size_t under_length;

__attribute__((constructor)) static void open_record(void) {
  const char* path = getenv("MAXSIM_RECORD");
  const char* folder = getenv("MAXSIM_RECORD_UNDER");
  if (path == NULL || folder == NULL || strlen(folder) >= sizeof(under)) return;
  strcpy(under, folder);
  under_length = strlen(folder);
  record = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_under(const char* path) {
  return record >= 0 && strncmp(path, under, under_length) == 0 &&
         (path[under_length] == '/' || path[under_length] == '\0');
}

// Gets the absolute path of an open file. Returns whether the path is under the folder.
static int path_of(int file, char* path) {
  if (record < 0) return 0;
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return is_under(path);
}

static int is_ours(int file) {
  char path[PATH_MAX];
  return path_of(file, path);
}

// Makes a path absolute. Returns whether the path is under the folder.
static int resolve(int folder, const char* path, char* absolute) {
  if (record < 0) return 0;
  if (path[0] == '/') {
    snprintf(absolute, PATH_MAX, "%s", path);
    return is_under(absolute);
  }
  char base[PATH_MAX];
  if (folder == AT_FDCWD) {
    if (getcwd(base, sizeof(base)) == NULL) return 0;
  } else {
    path_of(folder, base);
  }
  if (snprintf(absolute, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
  return is_under(absolute);
}

static void add(enum kind kind, uint64_t inode, int64_t offset, const char* path, const char* second,
                const struct iovec* parts, int count, uint64_t data_bytes) {
  const int error = errno;
  const struct entry head = {.kind = kind,
                             .path_bytes = (uint32_t)strlen(path),
                             .second_path_bytes = (uint32_t)strlen(second),
                             .inode = inode,
                             .offset = offset,
                             .data_bytes = data_bytes};
  struct iovec all[64] = {{(void*)&head, sizeof(head)},
                          {(void*)path, head.path_bytes},
                          {(void*)second, head.second_path_bytes}};
  int used = 3;
  for (int i = 0; i < count && data_bytes > 0; ++i) {
    if (used == 64) abort();
    all[used] = parts[i];
    if (all[used].iov_len > data_bytes) all[used].iov_len = data_bytes;  // the call may have written less
    data_bytes -= all[used++].iov_len;
  }
  size_t whole = 0;
  for (int i = 0; i < used; ++i) whole += all[i].iov_len;
  if (NEXT(writev)(record, all, used) != (ssize_t)whole) abort();
  errno = error;
}

static void add_of_file(enum kind kind, int file, int64_t offset) {
  struct stat info;
  if (fstat(file, &info) == 0) add(kind, info.st_ino, offset, "", "", NULL, 0, 0);
}

static void add_paths(enum kind kind, uint64_t inode, const char* path, const char* second) {
  add(kind, inode, 0, path, second, NULL, 0, 0);
}

// Creating and truncating.

static int open_recorded(int folder, const char* path, int flags, mode_t mode) {
  char absolute[PATH_MAX];
  const int changes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY;
  if (!changes || (flags & O_TMPFILE) == O_TMPFILE || !resolve(folder, path, absolute)) {
    return NEXT(openat)(folder, path, flags, mode);
  }
  pthread_mutex_lock(&mutex);
  struct stat info;
  const int was_there = lstat(absolute, &info) == 0;
  const int file = NEXT(openat)(folder, path, flags, mode);
  if (file >= 0 && fstat(file, &info) == 0) {
    if (!was_there) add_paths(kCreate, info.st_ino, absolute, "");
    if (was_there && (flags & O_TRUNC) != 0) add_of_file(kResize, file, 0);
    if ((flags & (O_SYNC | O_DSYNC)) != 0) add_paths(kUnknown, 0, absolute, "O_SYNC");
  }
  pthread_mutex_unlock(&mutex);
  return file;
}

#define OPEN(...)                                          \
  {                                                        \
    va_list more;                                          \
    va_start(more, flags);                                 \
    const mode_t mode = (mode_t)va_arg(more, int);         \
    va_end(more);                                          \
    return open_recorded(__VA_ARGS__, path, flags, mode);  \
  }
int open(const char* path, int flags, ...) OPEN(AT_FDCWD)
int open64(const char* path, int flags, ...) OPEN(AT_FDCWD)
int openat(int folder, const char* path, int flags, ...) OPEN(folder)
int openat64(int folder, const char* path, int flags, ...) OPEN(folder)
int creat(const char* path, mode_t mode) { return open_recorded(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return creat(path, mode); }

static void expect_reading(const char* path, const char* how) {
  char absolute[PATH_MAX];
  if (strpbrk(how, "wa+") != NULL && resolve(AT_FDCWD, path, absolute)) add_paths(kUnknown, 0, absolute, "fopen");
}
FILE* fopen(const char* restrict path, const char* restrict how) {
  expect_reading(path, how);
  return NEXT(fopen)(path, how);
}
FILE* fopen64(const char* restrict path, const char* restrict how) {
  expect_reading(path, how);
  return NEXT(fopen64)(path, how);
}

// Writing.

// Records a write after it was done. If `offset` is negative, the write was at the file's position, which is now at
// the end of the written bytes.
static void add_write(int file, const struct iovec* parts, int count, int64_t offset, ssize_t done) {
  struct stat info;
  if (done <= 0 || fstat(file, &info) != 0) return;
  if (offset < 0) offset = lseek(file, 0, SEEK_CUR) - done;
  add(kWrite, info.st_ino, offset, "", "", parts, count, (uint64_t)done);
}

#define RECORD_WRITE(file, parts, count, offset, call) \
  do {                                                 \
    if (!is_ours(file)) return call;                   \
    pthread_mutex_lock(&mutex);                        \
    const ssize_t done = call;                         \
    add_write(file, parts, count, offset, done);       \
    pthread_mutex_unlock(&mutex);                      \
    return done;                                       \
  } while (0)

ssize_t write(int file, const void* data, size_t size) {
  const struct iovec part = {(void*)data, size};
  RECORD_WRITE(file, &part, 1, -1, NEXT(write)(file, data, size));
}
ssize_t writev(int file, const struct iovec* parts, int count) {
  RECORD_WRITE(file, parts, count, -1, NEXT(writev)(file, parts, count));
}
ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  const struct iovec part = {(void*)data, size};
  RECORD_WRITE(file, &part, 1, offset, NEXT(pwrite)(file, data, size, offset));
}
ssize_t pwrite64(int file, const void* data, size_t size, off64_t offset) { return pwrite(file, data, size, offset); }

// Other ways to write, for which there is no kind of entry.
static void expect_others(int file, const char* call) {
  if (is_ours(file)) add_paths(kUnknown, 0, "", call);
}
ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size, unsigned flags) {
  expect_others(out, "copy_file_range");
  return NEXT(copy_file_range)(in, in_offset, out, out_offset, size, flags);
}
ssize_t sendfile(int out, int in, off_t* offset, size_t size) {
  expect_others(out, "sendfile");
  return NEXT(sendfile)(out, in, offset, size);
}
static void expect_private(int protection, int flags, int file) {
  if (file >= 0 && (flags & MAP_PRIVATE) == 0 && (protection & PROT_WRITE) != 0) expect_others(file, "mmap");
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  expect_private(protection, flags, file);
  return NEXT(mmap)(address, size, protection, flags, file, offset);
}
void* mmap64(void* address, size_t size, int protection, int flags, int file, off64_t offset) {
  expect_private(protection, flags, file);
  return NEXT(mmap64)(address, size, protection, flags, file, offset);
}

// Sizes.

#define RECORD_OF_FILE(file, kind, offset, call)               \
  do {                                                         \
    if (!is_ours(file)) return call;                           \
    pthread_mutex_lock(&mutex);                                \
    const int result = call;                                   \
    if (result == 0) add_of_file(kind, file, offset);          \
    pthread_mutex_unlock(&mutex);                              \
    return result;                                             \
  } while (0)

int ftruncate(int file, off_t size) { RECORD_OF_FILE(file, kResize, size, NEXT(ftruncate)(file, size)); }
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }
int truncate(const char* path, off_t size) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const int result = ftruncate(file, size);
  const int error = errno;
  close(file);
  errno = error;
  return result;
}
int truncate64(const char* path, off64_t size) { return truncate(path, size); }

int fallocate(int file, int mode, off_t offset, off_t size) {
  if ((mode & FALLOC_FL_KEEP_SIZE) != 0 && (mode & ~FALLOC_FL_KEEP_SIZE) == 0) {
    return NEXT(fallocate)(file, mode, offset, size);  // changes nothing that can be read
  }
  if (mode != 0) expect_others(file, "fallocate");
  RECORD_OF_FILE(file, kAllocate, offset + size, NEXT(fallocate)(file, mode, offset, size));
}
int fallocate64(int file, int mode, off64_t offset, off64_t size) { return fallocate(file, mode, offset, size); }
int posix_fallocate(int file, off_t offset, off_t size) {
  RECORD_OF_FILE(file, kAllocate, offset + size, NEXT(posix_fallocate)(file, offset, size));
}
int posix_fallocate64(int file, off64_t offset, off64_t size) { return posix_fallocate(file, offset, size); }

// Syncs. sync_file_range() guarantees nothing, so it is not recorded.

int fsync(int file) { RECORD_OF_FILE(file, kSync, 0, 0); }
int fdatasync(int file) { RECORD_OF_FILE(file, kSync, 0, 0); }
int syncfs(int file) {
  expect_others(file, "syncfs");
  return NEXT(syncfs)(file);
}

// Names.

static int renamed(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  char first[PATH_MAX], second[PATH_MAX];
  const int is_from = resolve(from_folder, from, first);
  const int is_to = resolve(to_folder, to, second);
  if (!is_from && !is_to) return NEXT(renameat2)(from_folder, from, to_folder, to, flags);
  pthread_mutex_lock(&mutex);
  const int result = NEXT(renameat2)(from_folder, from, to_folder, to, flags);
  if (result == 0) add_paths(is_from && is_to && (flags & RENAME_EXCHANGE) == 0 ? kRename : kUnknown, 0, first, second);
  pthread_mutex_unlock(&mutex);
  return result;
}
int rename(const char* from, const char* to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renamed(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return renamed(from_folder, from, to_folder, to, flags);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  char first[PATH_MAX], second[PATH_MAX];
  const int is_from = resolve(from_folder, from, first);
  if (!resolve(to_folder, to, second)) return NEXT(linkat)(from_folder, from, to_folder, to, flags);
  pthread_mutex_lock(&mutex);
  const int result = NEXT(linkat)(from_folder, from, to_folder, to, flags);
  if (result == 0) add_paths(is_from ? kLink : kUnknown, 0, first, second);
  pthread_mutex_unlock(&mutex);
  return result;
}
int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int symlinkat(const char* from, int folder, const char* to) {
  char absolute[PATH_MAX];
  if (resolve(folder, to, absolute)) add_paths(kUnknown, 0, absolute, "symlink");
  return NEXT(symlinkat)(from, folder, to);
}
int symlink(const char* from, const char* to) { return symlinkat(from, AT_FDCWD, to); }

int unlinkat(int folder, const char* path, int flags) {
  char absolute[PATH_MAX];
  if (!resolve(folder, path, absolute)) return NEXT(unlinkat)(folder, path, flags);
  pthread_mutex_lock(&mutex);
  const int result = NEXT(unlinkat)(folder, path, flags);
  if (result == 0) add_paths(kRemove, 0, absolute, "");
  pthread_mutex_unlock(&mutex);
  return result;
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  const int result = unlink(path);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int folder, const char* path, mode_t mode) {
  char absolute[PATH_MAX];
  if (!resolve(folder, path, absolute)) return NEXT(mkdirat)(folder, path, mode);
  pthread_mutex_lock(&mutex);
  struct stat info;
  const int result = NEXT(mkdirat)(folder, path, mode);
  if (result == 0 && lstat(absolute, &info) == 0) add_paths(kMakeFolder, info.st_ino, absolute, "");
  pthread_mutex_unlock(&mutex);
  return result;
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
