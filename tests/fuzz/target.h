// For all fuzz targets. A target is a function that gets one input: bytes that an attacker could send or put into a
// file. The target ends the process if a check of the code under test fails, and returns otherwise. Each target is a
// libFuzzer program of its own (libfuzzer_main.cc). corpus_test.cc runs all targets over the inputs that the repository
// keeps.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace maxsim::fuzz {

struct Target {
  std::string name;  // also the name of its folder in tests/fuzz/corpus
  void (*run)(std::string_view input);
};

// Returns the targets of this program, in no order.
inline std::vector<Target>& Targets() {
  static std::vector<Target> targets;
  return targets;
}

// Registers a target while the program starts.
struct Registration {
  Registration(const char* name, void (*run)(std::string_view)) { Targets().push_back({name, run}); }
};

// If `kept` is false, prints the broken promise and ends the process.
inline void Require(bool kept, std::string_view promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
}

// Requires that the status blames the input, and that its message can be printed on a terminal.
inline void RequireRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsDataLoss(status),
          absl::StrCat("input is refused as wrong, not with ", status.ToString()));
  const std::string_view message(status.message().data(), status.message().size());
  Require(!message.empty() && IsUtf8(message), "a refusal says in UTF-8 what is wrong");
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    Require(byte >= 0x20 && byte != 0x7f, absl::StrCat("a refusal holds no control character: ", status.ToString()));
  }
}

// A file in memory. Code can open it by its name as long as the object lives.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(fd_ >= 0 && pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "the target has a file");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

}  // namespace maxsim::fuzz
