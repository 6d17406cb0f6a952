// A TCP connection to a server on this machine, for tests that send bytes which no HTTP client would send.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/values/eventually.h"

namespace maxsim::test {

class RawConnection {
 public:
  // Connects from the address 127.0.0.`from`.
  explicit RawConnection(int port, uint32_t from = 1) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + from - 1);
    if (from != 1 && bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Close();
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Close();
  }
  ~RawConnection() { Close(); }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  RawConnection& operator=(RawConnection&&) = delete;

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // Sets how long a read waits for bytes.
  void SetPatience(std::chrono::milliseconds patience) {
    timeval timeout = {.tv_sec = patience.count() / 1000, .tv_usec = (patience.count() % 1000) * 1000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }

  void SetReceiveBuffer(int bytes) { setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); }

  // Sends all bytes. Returns false if the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Reads until the server closes the connection (sets *closed to true) or no byte has arrived for `patience`. Returns
  // the bytes.
  std::string ReadToEnd(bool* closed, std::chrono::milliseconds patience = kTestLimit) {
    return Read(std::string::npos, patience, closed);
  }

  // Reads until `count` answers with a Content-Length are complete, the server closes the connection, or no byte has
  // arrived for `patience`. Returns the bytes.
  std::string ReadAnswers(size_t count, std::chrono::milliseconds patience = kTestLimit) {
    bool closed = false;
    return Read(count, patience, &closed);
  }

  // Makes Close reset the connection, so that its port is free immediately. After a normal close a port stays in use
  // for a minute, and tests that open many thousands of connections would run out of ports.
  void ResetOnClose() {
    const linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }

  void FinishSending() { shutdown(fd_, SHUT_WR); }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  // Returns the number of complete answers with a Content-Length in the text.
  static size_t CountAnswers(const std::string& text) {
    constexpr std::string_view kLength = "Content-Length: ";
    size_t count = 0;
    size_t begin = 0;
    while (true) {
      const size_t body = text.find("\r\n\r\n", begin);
      if (body == std::string::npos) return count;
      const size_t length = text.find(kLength, begin);
      const size_t size = length < body ? std::stoul(text.substr(length + kLength.size(), 20)) : 0;
      if (text.size() < body + 4 + size) return count;
      begin = body + 4 + size;
      ++count;
    }
  }

 private:
  std::string Read(size_t count, std::chrono::milliseconds patience, bool* closed) {
    SetPatience(patience);
    std::string text;
    char buffer[4096];
    *closed = false;
    while (CountAnswers(text) < count) {
      const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (size <= 0) {  // also after a reset
        *closed = true;
        break;
      }
      text.append(buffer, static_cast<size_t>(size));
    }
    return text;
  }

  int fd_ = -1;
};

}  // namespace maxsim::test
