// A proxy between a client and a server on this machine. It can hold back or slow down the server's answer midway.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <list>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace maxsim::test {

// Thread-safe.
class SlowProxy {
 public:
  // The treatment of the server's bytes beyond the number that PassOnAtMost sets.
  enum class Manner { kStop, kDrip };  // kStop: holds them until PassOn; kDrip: passes on one byte per millisecond

  explicit SlowProxy(int server_port) : server_port_(server_port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  // Closes all connections.
  ~SlowProxy() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& thread : connections_) thread.join();
    close(listener_);
  }
  SlowProxy(const SlowProxy&) = delete;
  SlowProxy& operator=(const SlowProxy&) = delete;

  int port() const { return port_; }

  // From now on, forwards the first `count` bytes that the server sends on each connection immediately. Holds back or
  // slows down all later bytes, as `manner` says.
  void PassOnAtMost(int64_t count, Manner manner) {
    manner_ = manner;
    count_ = count;
    num_held_ = 0;
    ++num_changes_;
  }
  // Passes on everything, including the bytes that are held back.
  void PassOn() { PassOnAtMost(std::numeric_limits<int64_t>::max(), Manner::kStop); }

  // Returns whether bytes of the server have been held back since the last change.
  bool has_held() const { return num_held_ > 0; }

 private:
  static constexpr int kPollMs = 1;

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }

  void Accept() {
    while (!stopping_) {
      pollfd one = {.fd = listener_, .events = POLLIN, .revents = 0};
      if (poll(&one, 1, kPollMs) <= 0) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0) connections_.emplace_back([this, client] { Serve(client); });
    }
  }

  void Serve(int client) {
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(server_port_);
    bool is_open = connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    std::string waiting;  // bytes of the server that are held back
    int seen_changes = -1;
    int64_t left = 0;
    while (is_open && !stopping_) {
      if (const int changes = num_changes_; changes != seen_changes) {
        seen_changes = changes;
        left = count_;
      }
      pollfd both[] = {{.fd = client, .events = POLLIN, .revents = 0}, {.fd = server, .events = POLLIN, .revents = 0}};
      poll(both, 2, kPollMs);
      if (both[0].revents != 0) {
        std::string bytes;
        is_open = Receive(client, bytes) && Send(server, bytes);
      }
      if (both[1].revents != 0 && is_open) is_open = Receive(server, waiting);
      const bool drips = left == 0 && manner_ == Manner::kDrip;
      const auto count = std::min<size_t>(waiting.size(), drips ? 1 : static_cast<size_t>(left));
      if (is_open) is_open = Send(client, waiting.substr(0, count));
      waiting.erase(0, count);
      if (!drips) left -= static_cast<int64_t>(count);
      if (!waiting.empty() && left == 0) ++num_held_;
    }
    close(server);
    close(client);
  }

  static bool Receive(int fd, std::string& bytes) {
    char piece[65536];
    const ssize_t got = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
    if (got > 0) bytes.append(piece, static_cast<size_t>(got));
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
  // Send does not block for long, because the receivers never stop reading.
  static bool Send(int fd, const std::string& bytes) {
    return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  const int server_port_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> count_{std::numeric_limits<int64_t>::max()};
  std::atomic<Manner> manner_{Manner::kStop};
  std::atomic<int> num_changes_{0};
  std::atomic<int64_t> num_held_{0};
  std::list<std::thread> connections_;  // used by the acceptor, and by the destructor after it has joined the acceptor
  std::thread acceptor_;
};

}  // namespace maxsim::test
