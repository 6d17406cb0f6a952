// State that the gate's connections share. Used only on the gate's thread.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include "server/gate/gate.h"
#include "server/gate/http2_scanner.h"
#include "server/gate/owned_fd.h"

namespace maxsim::gate {

using Socket = boost::asio::generic::stream_protocol::socket;

// Makes a socket that owns the descriptor `fd`. If that throws, `fd` is closed.
inline Socket MakeSocket(boost::asio::io_context& loop, int family, OwnedFd fd) {
  Socket socket(loop, boost::asio::generic::stream_protocol(family, 0), fd.get());
  fd.Release();
  return socket;
}

class WaitingConnection;
class RelayedConnection;

struct Peer {
  std::string host;  // an IP address; "" for a client of the Unix socket
  std::string name;  // the IP address with the port, for relayed connections
};

// Waiting and relayed connections. The first of each list is the oldest.
struct GateConnections {
  boost::asio::io_context& loop;
  const GateOptions& options;
  const GateDependencies& dependencies;
  std::list<std::shared_ptr<WaitingConnection>> waiting{};
  // Relayed connections (relayed_connection.h): those that have made no call with a known token, and those that have.
  std::list<std::shared_ptr<RelayedConnection>> unauthenticated{};
  std::list<std::shared_ptr<RelayedConnection>> authenticated{};
  // Hands a connection over to gRPC. After that, the gate only counts it.
  std::function<void(OwnedFd fd, const Peer& peer, std::string_view bytes, bool tls)> hand_over;
  std::array<char, 32 * 1024> scratch{};  // shared read buffer; its bytes are processed before the next read
};

}  // namespace maxsim::gate
