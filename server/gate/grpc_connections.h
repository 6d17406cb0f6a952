// Tracks gRPC's connections, so that the gate can count and limit them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace maxsim::gate {

// gRPC closes connections without telling the gate, and the system soon reuses the descriptor's number for another
// file. It does not reuse a socket's inode that soon. So a connection counts as open as long as its descriptor has the
// same inode as when it was added. Not thread-safe.
class GrpcConnections {
 public:
  // Adds `fd`, a connected socket that the caller is about to hand over to gRPC. It counts as a connection of the
  // address `peer`, unless `peer` is "".
  void Add(int fd, const std::string& peer);

  // Removes connections that gRPC has closed. One system call per connection.
  void Sweep();

  // Return the number of connections, in total and of one address, that were open at the last Sweep or have been added
  // since.
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
