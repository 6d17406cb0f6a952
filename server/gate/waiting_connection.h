// A connection that the gate has accepted, but neither handed over to gRPC nor relayed yet. Internal to server/gate;
// used only on the gate's thread.
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
  // The gate hands the connection over to gRPC when the client has sent this much: one byte, the preface, or a call
  // with a token.
  enum class HandOverAfter { kFirstByte, kPreface, kAuthenticatedCall };

  WaitingConnection(GateConnections* connections, Socket socket, Peer peer, HandOverAfter hand_over_after);

  // Adds the connection to the end of the list of waiting ones, and begins to read.
  void Start();

  // Closes at once. Idempotent.
  void Close();

  // Ends the connection for a shutdown. In plain text, sends GOAWAY, so that the client makes its calls elsewhere, and
  // closes as SendGoawayAndClose does. Closes a TLS connection at once.
  void Drain();

  const Peer& peer() const { return peer_; }

 private:
  using Error = boost::system::error_code;
  enum class State { kReading, kClosing, kClosed };

  // Waits for bytes without holding a buffer: most clients send nothing.
  void AwaitBytes();
  void Read();
  void OnBytes(std::string_view bytes);
  // Handles the units (preface, frames, calls) received so far. Returns false if the connection has been handed over or
  // closed; the caller must then stop reading.
  bool Proceed();
  bool OnCall(const Http2Unit& unit);
  bool OnFrame(const Http2Unit& unit);
  // Answers a call with the error `why`. Returns true if reading should go on.
  bool RefuseCall(const Http2Unit& unit, const absl::Status& why);
  // Removes the connection from the waiting list. Returns its descriptor, or an empty OwnedFd if the socket cannot
  // release it.
  OwnedFd ReleaseSocket();
  void HandOver();
  void Relay();
  // Counts the end of the connection, and ends it: with SendGoawayAndClose if it is in plain text and calls need
  // tokens, otherwise at once.
  void End(CloseReason reason, ErrorCode code);
  // Sends GOAWAY, and closes when the client hangs up or after a moment.
  void SendGoawayAndClose(ErrorCode code);
  // Sends without waiting. If the socket is full, closes the connection.
  void Send(std::string_view bytes);
  // Ends the connection after `time`, which replaces any earlier limit.
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
  // The bytes that gRPC will read first: everything that the client sent, except refused calls, PINGs and the
  // acknowledgement of the gate's SETTINGS.
  std::string bytes_for_grpc_;
  bool settings_acknowledged_ = false;
  uint32_t last_refused_ = 0;  // the newest stream whose call was refused; 0 if none was
  int num_refused_ = 0;
  int num_frames_ = 0;
  size_t num_dropped_bytes_ = 0;  // since GOAWAY
};

}  // namespace maxsim::gate
