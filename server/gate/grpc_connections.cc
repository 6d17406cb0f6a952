#include "server/gate/grpc_connections.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

namespace maxsim::gate {
namespace {

// Returns the inode of a socket, or 0 if the descriptor is closed or is no longer a socket. Another thread may close
// the descriptor at the same time. That is intended, but ThreadSanitizer would report it for fstat, so this uses
// fstatat.
ino_t SocketInode(int fd) {
  struct stat file {};
  return fstatat(fd, "", &file, AT_EMPTY_PATH) == 0 && S_ISSOCK(file.st_mode) ? file.st_ino : 0;
}

}  // namespace

void GrpcConnections::Add(int fd, const std::string& peer) {
  connections_.push_back({fd, SocketInode(fd), peer});
  if (!peer.empty()) ++by_peer_[peer];
}

void GrpcConnections::Sweep() {
  const auto is_closed = [this](const Connection& connection) {
    if (SocketInode(connection.fd) == connection.inode) return false;
    const auto peer = by_peer_.find(connection.peer);
    if (peer != by_peer_.end() && --peer->second == 0) by_peer_.erase(peer);
    return true;
  };
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(), is_closed), connections_.end());
}

size_t GrpcConnections::of_peer(const std::string& peer) const {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? 0 : found->second;
}

}  // namespace maxsim::gate
