// The gate in front of gRPC. It accepts the connections of the gRPC port and of the Unix socket, and hands each over
// to gRPC once that is safe:
//
//   plain text, if calls need tokens      after the first call that carries a known token
//   plain text, if they need none         after the preface of HTTP/2
//   TLS                                    after the first byte
//
// gRPC's own listener (1.51) has two faults. It stops for good when an accept fails because no descriptor is left, and
// each of its connections may use memory and threads before any call has been checked. A connection that waits in the
// gate costs a descriptor and at most some 100 KiB. The number of these connections is limited, and the oldest is
// closed to make room for a new one. Once a connection is handed over, the gate no longer touches its bytes.
//
// Calls of grpc.health.v1.Health need no token. If the first call of a connection is a health call, the gate relays the
// connection: gRPC serves it through a socket pair. Until a call carries a known token, the gate limits the
// connection's calls, streams and bytes (relayed_connection.h).
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
  std::string address;      // host and port as error messages show them
  std::string unix_socket;  // path; "" for none. It is in plain text even if `tls` is set
  bool tls = false;         // connections to the port are encrypted, so the gate cannot read what they carry
  // Limit on open connections, including those that gRPC has. At the limit, a new connection replaces the oldest
  // connection that has shown no known token: a waiting one if there is one, else a relayed one. If every connection
  // has shown a token, the new one is closed at once.
  int max_connections = 8192;
  int max_connections_per_peer = 0;   // bound on the open connections of one IP address; 0: no bound
  int max_concurrent_streams = 4096;  // announced in the gate's SETTINGS frame; the same as in gRPC's
  // A connection that is neither handed over to gRPC nor relayed within this time is closed. If it is in plain text and
  // calls need tokens, it gets GOAWAY first. gRPC clients connect again when they have a call to make.
  absl::Duration first_call_timeout = absl::Seconds(30);
};

// Why the gate ended a connection. The metrics use these as labels.
enum class CloseReason {
  kFull,             // max_connections, or no descriptor is left
  kPeerFull,         // max_connections_per_peer
  kTimeout,          // first_call_timeout
  kMalformed,        // not HTTP/2, or it exceeded a limit on what may come before a known token
  kUnauthenticated,  // its calls carried no known token
};

struct GateCounts {
  size_t waiting = 0;      // connections that wait for their first call
  size_t relayed = 0;      // relayed connections
  size_t handed_over = 0;  // connections that gRPC has, not counting relayed ones
};

// The functions that the gate calls, on its thread. They must not block.
struct GateDependencies {
  // Takes over a connected socket (non-blocking, close-on-exec) and the bytes that were already read from it. `tls`
  // says whether the socket is encrypted. It is false for relayed connections and for those of the Unix socket.
  std::function<void(OwnedFd fd, std::string_view bytes, bool tls)> hand_over;
  // Returns OK if a call with this value of the header `authorization` ("" if absent) may search. This function is null
  // if calls need no token.
  std::function<absl::Status(std::string_view authorization)> authenticate;
  // Reports a refused call. `path` is "/package.Service/Method" as sent.
  std::function<void(std::string_view path, const absl::Status& status)> on_refused_call;
  std::function<void(CloseReason reason)> on_closed;
  std::function<void(const GateCounts& counts)> on_counts;  // twice a second
};

// Runs on a thread of its own between Start and the end of Stop.
class Gate {
 public:
  // Everything that the functions in `dependencies` refer to must outlive the gate.
  Gate(GateOptions options, GateDependencies dependencies);
  ~Gate();  // stops

  // Listens on the address and the Unix socket, and returns the TCP port. Clients can connect, but the gate accepts
  // them only after Start. Returns UNAVAILABLE with the configuration key and the system's reason.
  absl::StatusOr<int> Listen();

  // Begins to accept. Must be called once, after Listen.
  void Start();

  // Closes the listening sockets. Sends GOAWAY on waiting connections in plain text; each is closed when its client
  // hangs up, after a moment, or in Stop. Relayed connections continue until gRPC ends them. Idempotent.
  void StopAccepting();

  // Calls StopAccepting, ends relayed connections, joins the thread. Idempotent.
  void Stop();

  // Connects to the port as a client would, and waits until the gate has accepted the connection. Returns UNAVAILABLE
  // with the reason if this takes longer than `limit`. Only one thread at a time may call it.
  absl::Status Probe(absl::Duration limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::gate
