// This is the gate in front of gRPC. It accepts the connections of the gRPC port and of the Unix socket, and gives
// each to gRPC once that is safe:
//
//   plain text, where calls need tokens   after the first call that carries a known token
//   plain text, where they need none      after the preface of HTTP/2
//   TLS                                    after the first byte
//
// gRPC's own listener (1.51) stops for good at the first accept that fails for want of descriptors, and a connection
// that gRPC has may use memory and threads before any call is looked at. Here a connection that waits costs a
// descriptor and at most some 100 KiB, their number is bounded, and the oldest makes room for the next. A connection
// that was given away is gRPC's as if gRPC had accepted it: nothing lies between.
//
// Calls of grpc.health.v1.Health need no token. Where they come first the connection is relayed: gRPC serves it through
// a socket pair, and the gate bounds calls, streams and bytes until a call carries a known token
// (relayed_connection.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/gate/owned_fd.h"

namespace maxsim::gate {

struct GateOptions {
  std::string host;
  int port = 0;             // 0 takes a free one
  std::string address;      // both as errors show them
  std::string unix_socket;  // "" for none; in plain text even where `tls` is on
  bool tls = false;         // what comes to the port is encrypted, so that the gate cannot read them
  // Open connections, those that gRPC has included. One more takes the place of the one that has waited longest for its
  // first call; where none waits it is closed at once.
  int max_connections = 8192;
  int max_connections_per_peer = 0;   // bound on the open connections of one IP address; 0 is no bound
  int max_concurrent_streams = 4096;  // what the gate's SETTINGS frame announces, as gRPC's will
  // Until a connection has made the call that gives it to gRPC. It ends with GOAWAY, after which clients of gRPC
  // connect again when they have a call to make.
  absl::Duration first_call_timeout = absl::Seconds(30);
};

// Why the gate has ended a connection, as the metrics name it.
enum class CloseReason {
  kFull,             // max_connections, or no descriptor is left
  kPeerFull,         // max_connections_per_peer
  kTimeout,          // first_call_timeout
  kMalformed,        // no HTTP/2, or beyond the limits of http2_scanner.h and relayed_connection.h
  kUnauthenticated,  // its calls carried no known token
};

struct GateCounts {
  size_t waiting = 0;      // for their first call
  size_t relayed = 0;      // see above
  size_t handed_over = 0;  // that gRPC has, relayed ones not counted
};

// What the gate asks of others. All are called on the gate's thread and must not block.
struct GateDependencies {
  // Takes over a connected socket, which neither blocks nor survives exec, and what was read from it. `tls` is false
  // for a relayed one and for one of the Unix socket.
  std::function<void(OwnedFd fd, std::string_view bytes, bool tls)> hand_over;
  // Whether a call with this value of `authorization` ("" without one) may search; null where calls need no token.
  std::function<absl::Status(std::string_view authorization)> authenticate;
  // A call that was answered with UNAUTHENTICATED; `path` is "/package.Service/Method", as the client sent it.
  std::function<void(std::string_view path, const absl::Status& status)> on_refused_call;
  std::function<void(CloseReason reason)> on_closed;
  std::function<void(const GateCounts& counts)> on_counts;  // twice a second
};

// Runs on a thread of its own between Start and the end of Stop.
class Gate {
 public:
  // What `dependencies` refer to must outlive the gate.
  Gate(GateOptions options, GateDependencies dependencies);
  ~Gate();  // stops

  // Takes the address and the Unix socket; returns the TCP port. Connections wait in the kernel until Start.
  // UNAVAILABLE with the key and the system's reason.
  absl::StatusOr<int> Listen();

  // Begins to accept. Once, after Listen.
  void Start();

  // Closes the sockets. Connections that wait get GOAWAY in plain text, and are closed once their clients have hung up,
  // soon, or by Stop; relayed ones go on until gRPC ends them. Idempotent.
  void StopAccepting();

  // StopAccepting, ends what is relayed, joins the thread. Idempotent.
  void Stop();

  // Connects to the port as a client would, and waits until the gate has accepted that connection. UNAVAILABLE with the
  // reason when that takes longer than `limit`. One call at a time.
  absl::Status Probe(absl::Duration limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::gate
