// A connection that has not made its first call. Internal to server/gate; used on the gate's thread only.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "server/gate/gate_connections.h"
#include "server/gate/http2_scanner.h"

namespace maxsim::gate {

class WaitingConnection : public std::enable_shared_from_this<WaitingConnection> {
 public:
  // What a client has to send before gRPC gets the connection.
  enum class HandOverAfter { kFirstByte, kPreface, kAuthenticatedCall };

  WaitingConnection(GateConnections* connections, Socket socket, Peer peer, HandOverAfter hand_over_after);

  // Puts itself at the end of the list, and begins.
  void Start();

  // Closes at once. Idempotent.
  void Close();

  // Sends GOAWAY, so that the client makes its calls elsewhere, and closes as SendGoawayAndClose does. A connection
  // that gRPC is to encrypt is closed at once.
  void Drain();

  const Peer& peer() const { return peer_; }

 private:
  using Error = boost::system::error_code;
  enum class State { kReading, kClosing, kClosed };

  // Waits without a buffer of its own: most connections that wait send nothing.
  void AwaitBytes();
  void Read();
  void OnBytes(std::string_view bytes);
  // Looks at what has come; false once the connection is not this object's any more, or ends.
  bool Proceed();
  bool OnCall(const Http2Unit& unit);
  bool OnFrame(const Http2Unit& unit);
  // Answers a call for want of a token; the connection may try again with another one.
  bool RefuseCall(const Http2Unit& unit, const absl::Status& why);
  // Leaves the list. Returns the socket's descriptor, or none where the socket cannot give it away.
  OwnedFd ReleaseSocket();
  void HandOver();
  void Relay();
  // Counts the end of the connection, and ends it as SendGoawayAndClose does.
  void End(CloseReason reason, ErrorCode code);
  // Sends GOAWAY, and closes when the client has read that, or after a moment.
  void SendGoawayAndClose(ErrorCode code);
  // Writes at once. Closes the connection where that does not fit into the socket: the client reads nothing.
  void Send(std::string_view bytes);
  // Ends the connection after `time`, in place of the time that was set before.
  void ExpireAfter(std::chrono::nanoseconds time);
  void OnTimeout(Error error);

  GateConnections& connections_;
  Socket socket_;
  boost::asio::steady_timer deadline_;
  const Peer peer_;
  const HandOverAfter hand_over_after_;
  std::list<std::shared_ptr<WaitingConnection>>::iterator list_position_;
  State state_ = State::kReading;
  Http2Scanner scanner_;
  // What gRPC will read first: all that came but acknowledgements of the gate's own frames.
  std::string bytes_for_grpc_;
  bool settings_acknowledged_ = false;
  uint32_t last_refused_ = 0;  // the newest stream whose call was refused; 0 without one
  int num_refused_ = 0;
  int num_frames_ = 0;
  size_t num_dropped_bytes_ = 0;  // since GOAWAY
};

}  // namespace maxsim::gate
