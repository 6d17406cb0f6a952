// The connections that gRPC has taken over, so that they can be counted and bounded.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace maxsim::gate {

// gRPC closes a connection without telling anybody, and its descriptor's number is soon another file's. A socket's
// inode is not given to another one that soon, so a connection is open for as long as its descriptor has the inode that
// it had. Not thread-safe.
class GrpcConnections {
 public:
  // `fd` is a connected socket that the caller is about to give away; `peer` is whom it counts for, "" for nobody.
  void Add(int fd, const std::string& peer);

  // Forgets the connections that have been closed. Costs a system call each.
  void Sweep();

  // These count the connections that were open at the last Sweep, and those added since.
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
