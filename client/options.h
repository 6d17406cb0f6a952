// How a Client reaches its server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/retry.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace maxsim::client {

// Files are PEM and are read once, when the client is made.
struct TlsOptions {
  bool enabled = false;
  std::string ca_file;      // certificates that may sign the server's; empty: the system's
  std::string cert_file;    // this client's certificate, if the server asks for one; needs key_file
  std::string key_file;     //
  std::string server_name;  // expected in the server's certificate; empty: the target's host
};

struct ClientOptions {
  // The target is host:port, or any gRPC name: "dns:///host:port", "ipv4:10.0.0.1:7070,10.0.0.2:7070", "unix:/path".
  std::string target = "localhost:7070";
  // How calls are distributed if `target` has several addresses, as the name of a headless Kubernetes service has.
  // round_robin connects to every address, and calls and sessions take those in turn that can be reached. pick_first
  // sends all calls to the first address that answers. With one address both do the same.
  std::string load_balancing = "round_robin";

  // Bound on one call, over all of its attempts and the waits between them.
  absl::Duration timeout = absl::Seconds(30);
  // Bound on one call of LoadCollection, or of another that changes which collections there are or how they are stored.
  // These calls return when the work is done.
  absl::Duration admin_timeout = absl::Minutes(10);
  RetryOptions retry;

  TlsOptions tls;
  // The token is sent as `authorization: Bearer ...`. Without TLS it travels in the clear.
  std::string bearer_token;
  // The name under which a busy server counts these calls when it divides its time among clients. It is sent as the
  // metadata whose key is `client_key`, which must be the server's batching.client_key. If it is empty, no such
  // metadata is sent, and the server uses the connection's address as the name.
  std::string client_id;
  std::string client_key = "x-client-id";

  // Largest message that the client sends or receives. The server has its own limit (Limits.max_request_bytes).
  int64_t max_message_bytes = int64_t{256} << 20;
  // Number of connections to each address; calls take them in turn. One thread does the I/O of an HTTP/2 connection, so
  // a client that sends more than one thread can (large queries at thousands per second) needs several connections.
  int num_channels = 1;
  // How long a connection with waiting calls may be idle before the client pings the server; zero: it never pings. A
  // server closes connections that ping more often than it allows (gRPC's default is one ping in 5 minutes without
  // data).
  absl::Duration keepalive_time = absl::ZeroDuration();
  absl::Duration keepalive_timeout = absl::Seconds(10);
};

// Returns OK, or INVALID_ARGUMENT that names the option, the value and what is allowed.
absl::Status ValidateClientOptions(const ClientOptions& options);

// Reads the TLS files. Returns NOT_FOUND if a file cannot be read, which names the file and the cause. Returns
// INVALID_ARGUMENT for an empty file, and for a certificate without its key.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const TlsOptions& options);

// Returns the arguments of every channel. No compression; gRPC's own retries are off, because client/retry.h is the
// one place that decides about them.
grpc::ChannelArguments MakeChannelArguments(const ClientOptions& options);

// Makes options.num_channels channels to options.target, each with a connection to every one of its addresses. The
// channels connect on their first call. Errors are those of ValidateClientOptions and MakeCredentials.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(const ClientOptions& options);

}  // namespace maxsim::client
