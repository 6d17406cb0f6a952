#include "base/open_descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

namespace maxsim {

std::optional<int64_t> CountOpenDescriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  int64_t count = -1;  // The folder's own descriptor is not counted.
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  ::closedir(folder);
  return count;
}

uint64_t DescriptorLimit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace maxsim
