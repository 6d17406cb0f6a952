// Keeps a mapped file that shrinks, or a disk that cannot read it, from ending the process.
//
// Reading a mapped page whose bytes are gone raises SIGBUS. Inside a guarded range a handler replaces the whole range
// by zeros and marks it as lost, and reading goes on. So a reader must call lost() before it trusts what it has read.
// SIGBUS at any other address goes to the previous handler: by default it ends the process. The JVM and systemd's
// journal treat their mapped files in the same way.
#pragma once

#include <cstddef>

namespace maxsim {

class MappingGuard {
 public:
  // Guards the mapping of `size` > 0 bytes at `data`, which starts at a page and must stay mapped until the guard is
  // destroyed. The first one installs the handler. The constructor is thread-safe.
  MappingGuard(void* data, size_t size);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  // Returns true once a page of the range could not be read: all of it is zeros from then on. The function is
  // thread-safe.
  bool lost() const;

 private:
  struct Range;
  static void OnBusError(int signal, void* info, void* context);
  Range* const range_;
};

}  // namespace maxsim
