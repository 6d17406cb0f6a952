// Relays a connection whose first call needed no token, as a health check does not. It is internal to server/gate;
// used on the gate's thread only.
//
// gRPC serves it through a socket pair, and what the client sends is bounded: calls and bytes a second, streams that
// are open, the size of headers. A call that carries a known token ends the bounds (a client that checks its server's
// health does so on the connection of its calls), and from then on bytes are only copied. The pair's other end has the
// client's address in its name, for relayed_peer.h.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "server/gate/gate_connections.h"
#include "server/gate/http2_scanner.h"
#include "server/gate/token_bucket.h"

namespace maxsim::gate {

class RelayedConnection : public std::enable_shared_from_this<RelayedConnection> {
 public:
  // Gives gRPC one end of a socket pair, and relays `client`, of which `received` has been read. Closes it where there
  // is no descriptor left.
  static void Start(GateConnections* connections, Socket client, const Peer& peer, const std::string& received);

  RelayedConnection(GateConnections* connections, Socket client, Socket grpc_socket, Peer peer);

  // Closes both ends. Idempotent.
  void Close();

  const Peer& peer() const { return peer_; }

 private:
  using Error = boost::system::error_code;
  using Clock = std::chrono::steady_clock;

  void Begin(const std::string& received);
  // Reads the client's bytes, which go to gRPC.
  void ReadFromClient();
  void OnClientBytes(std::string_view bytes);
  // Scans what has come and appends to to_grpc_ what may pass; false where the client went beyond a bound.
  bool Scan(std::string_view bytes);
  // Appends a unit to to_grpc_. Returns false where the client went beyond a bound with it.
  bool Admit(const Http2Unit& unit);
  void BecomeAuthenticated();
  void WriteToGrpc();
  // Reads gRPC's bytes, which go to the client.
  void ReadFromGrpc();
  void WriteToClient(size_t num_bytes);

  GateConnections& connections_;
  Socket client_socket_;
  Socket grpc_socket_;
  const Peer peer_;
  std::list<std::shared_ptr<RelayedConnection>>::iterator list_position_;
  bool authenticated_ = false;
  bool closed_ = false;
  Http2Scanner scanner_;
  TokenBucket call_bucket_;
  TokenBucket byte_bucket_;
  Clock::duration pause_{};                       // before the client is read again
  std::optional<Clock::time_point> flood_began_;  // the client has sent more than its rate ever since
  std::set<uint32_t> open_calls_;                 // ids of streams that the client has opened and not ended
  std::set<uint32_t> open_watches_;               // and of those that it has not reset
  boost::asio::steady_timer pause_timer_;
  boost::asio::steady_timer write_deadline_;  // for the client to read
  std::string to_grpc_;
  std::array<char, 32 * 1024> from_client_;
  std::array<char, 32 * 1024> from_grpc_;
};

}  // namespace maxsim::gate
