// Relays a connection whose first call is a health check without a token. Internal to server/gate; used only on the
// gate's thread.
//
// gRPC serves the connection through a socket pair, and the gate limits what the client sends: calls and bytes per
// second, open streams, the size of headers. The first call with a known token ends these limits, because a client may
// check the server's health on the same connection on which it later makes its calls. From then on the gate only copies
// bytes. The name of the gate's end of the pair includes the client's address, so that gRPC's handlers can read it
// (relayed_peer.h).
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
  // Gives gRPC one end of a socket pair, and relays `client` to it. Relays `received` first, the bytes that have
  // already been read. Closes `client` if no descriptor is left.
  static void Start(GateConnections* connections, Socket client, const Peer& peer, const std::string& received);

  RelayedConnection(GateConnections* connections, Socket client, Socket grpc_socket, Peer peer);

  // Closes both ends. Idempotent.
  void Close();

  const Peer& peer() const { return peer_; }

 private:
  using Error = boost::system::error_code;
  using Clock = std::chrono::steady_clock;

  void Begin(const std::string& received);
  // Reads bytes from the client and forwards them to gRPC.
  void ReadFromClient();
  void OnClientBytes(std::string_view bytes);
  // Scans bytes of the client, and appends those that gRPC may get to to_grpc_. Returns false if the client exceeded a
  // limit.
  bool Scan(std::string_view bytes);
  // Appends a unit to to_grpc_. Returns false if it exceeds a limit.
  bool Admit(const Http2Unit& unit);
  void BecomeAuthenticated();
  void WriteToGrpc();
  // Reads bytes from gRPC and forwards them to the client.
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
  Clock::duration pause_{};                       // how long the gate does not read from the client
  std::optional<Clock::time_point> flood_began_;  // since when the client has been above its rate
  std::set<uint32_t> open_calls_;                 // streams of calls that the client has neither ended nor reset
  std::set<uint32_t> open_watches_;               // streams of Watch calls that the client has not reset
  boost::asio::steady_timer pause_timer_;
  boost::asio::steady_timer write_deadline_;  // when the client must have read an answer
  std::string to_grpc_;
  std::array<char, 32 * 1024> from_client_;
  std::array<char, 32 * 1024> from_grpc_;
};

}  // namespace maxsim::gate
