// Tracks the connections that gRPC has taken over, so that they can be counted and bounded.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace maxsim::gate {

// gRPC closes connections without notice, and the system soon reuses the descriptor's number for another file. It does
// not reuse a socket's inode that soon. So a connection counts as open as long as its descriptor refers to the same
// inode as when it was added. Not thread-safe.
class GrpcConnections {
 public:
  // `fd` is a connected socket that the caller is about to hand over. It counts as a connection of the address `peer`,
  // unless that is "".
  void Add(int fd, const std::string& peer);

  // Removes the connections that have been closed. Costs one system call per connection.
  void Sweep();

  // The number of connections, in total and of one address, that were open at the last Sweep or have been added since.
  size_t size() const { return connections_.size(); }
  size_t of_peer(const std::string& peer) const;

 private:
  struct Connection {
    int fd = -1;
    ino_t inode = 0;
    std::string peer;
  };

  std::vector<Connection> connections_;
  std::map<std::string, size_t> by_peer_;
};

}  // namespace maxsim::gate
