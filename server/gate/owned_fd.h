// Defines OwnedFd.
#pragma once

#include <unistd.h>

#include <utility>

namespace maxsim::gate {

// Owns a file descriptor, and closes it on destruction.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() { Reset(); }
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }

  // Returns the descriptor, or -1 when the object owns none.
  int get() const { return fd_; }

  // Returns the descriptor and gives up ownership: the caller must close it.
  int Release() { return std::exchange(fd_, -1); }

  // Closes the owned descriptor, if any, and takes ownership of `fd`.
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace maxsim::gate
