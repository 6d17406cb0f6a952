// Keeps the process alive if a mapped file shrinks, or if the disk cannot read it.
//
// Reading a mapped page whose bytes are gone raises SIGBUS. If the page is in a guarded range, a signal handler
// replaces the whole range by zeros and marks it as lost, and the reading thread continues. So a reader must call
// lost() before it trusts bytes that it has read. SIGBUS at any other address goes to the previous handler, which by
// default ends the process. The JVM and systemd's journal treat their mapped files in the same way.
#pragma once

#include <cstddef>

namespace maxsim {

class MappingGuard {
 public:
  // Guards the mapping of `size` > 0 bytes at `data`, which starts at a page and must stay mapped until the guard is
  // destroyed. The first guard installs the handler. The constructor is thread-safe.
  MappingGuard(void* data, size_t size);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  // Returns true if a page of the range could not be read. The whole range is zeros after this. Thread-safe.
  bool lost() const;

 private:
  struct Range;
  static void OnBusError(int signal, void* info, void* context);
  Range* const range_;
};

}  // namespace maxsim
