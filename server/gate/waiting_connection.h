// A connection that has not made its first call. Internal to server/gate; used on the gate's thread only.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "server/gate/http2_scanner.h"
#include "server/gate/visitors.h"

namespace maxsim::gate {

class WaitingConnection : public std::enable_shared_from_this<WaitingConnection> {
 public:
  // What has to come before gRPC gets the connection.
  enum class Wanted { kFirstByte, kPreface, kToken };

  WaitingConnection(Visitors* visitors, Socket socket, Peer peer, Wanted wanted);

  // Puts itself at the end of the list, and begins.
  void Start();

  // Closes at once. Idempotent.
  void Close();

  const Peer& peer() const { return peer_; }

 private:
  using Error = boost::system::error_code;
  enum class State { kReading, kEnding, kClosed };

  // Waits without a buffer of its own: most connections that wait send nothing.
  void AwaitBytes();
  void Read();
  void OnBytes(std::string_view bytes);
  // Looks at what has come; false once the connection is not this object's any more, or ends.
  bool Proceed();
  bool OnCall(const Unit& unit);
  bool OnFrame(const Unit& unit);
  // Answers a call for want of a token; the connection may try again with another one.
  bool RefuseCall(const Unit& unit, const absl::Status& why);
  // Leaves the list; returns the socket's descriptor, or -1.
  int GiveAway();
  void HandOver();
  void StartRelay();
  // Says GOAWAY, and closes when the client has read that, or after a moment.
  void End(Ending ending, ErrorCode code);
  // Writes at once. Closes the connection where that does not fit into the socket: the client reads nothing.
  void Send(std::string_view bytes);
  // Ends the connection then, in place of what was set before.
  void ExpireAfter(std::chrono::nanoseconds time);
  void OnTimeout(Error error);

  Visitors& visitors_;
  Socket socket_;
  boost::asio::steady_timer deadline_;
  const Peer peer_;
  const Wanted wanted_;
  std::list<std::shared_ptr<WaitingConnection>>::iterator place_;
  State state_ = State::kReading;
  Http2Scanner scanner_;
  std::string passed_on_;  // what gRPC will read first: all that came but acknowledgements of the gate's own frames
  bool settings_acknowledged_ = false;
  uint32_t last_refused_ = 0;  // the newest stream whose call was refused; 0 without one
  int num_refused_ = 0;
  int num_frames_ = 0;
  size_t num_dropped_bytes_ = 0;  // since GOAWAY
};

}  // namespace maxsim::gate
