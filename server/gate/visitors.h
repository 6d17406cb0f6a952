// What the connections of the gate share. Internal to server/gate; used on the gate's thread only.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include "server/gate/gate.h"
#include "server/gate/http2_scanner.h"

namespace maxsim::gate {

using Socket = boost::asio::generic::stream_protocol::socket;

// An object's socket of a descriptor that it takes over.
inline Socket MakeSocket(boost::asio::io_context& loop, int family, int fd) {
  return Socket(loop, boost::asio::generic::stream_protocol(family, 0), fd);
}

class WaitingConnection;
class Relay;

struct Peer {
  std::string host;  // an IP address; "" for a client of the Unix socket
  std::string name;  // the same with its port, for relayed connections
};

// Every connection that the gate has, in order of age.
struct Visitors {
  boost::asio::io_context& loop;
  const GateOptions& options;
  const GateDependencies& dependencies;
  std::list<std::shared_ptr<WaitingConnection>> waiting{};
  std::list<std::shared_ptr<Relay>> unproven{};  // relayed, and without a call that carried a known token
  std::list<std::shared_ptr<Relay>> proven{};    // relayed, with one
  // Counts a connection as gRPC's from here on, and gives it away.
  std::function<void(int fd, const Peer& peer, std::string_view bytes, bool tls)> hand_over;
  std::array<char, 32 * 1024> scratch{};  // what has just been read, by whoever reads
};

}  // namespace maxsim::gate
