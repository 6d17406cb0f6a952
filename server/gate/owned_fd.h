// Has a file descriptor with an owner, which closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace maxsim::gate {

// A descriptor that is closed with the object.
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

  // Gives the descriptor away: the caller closes it.
  int Release() { return std::exchange(fd_, -1); }

  // Closes the descriptor that is owned, and owns `fd` from now on.
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace maxsim::gate
