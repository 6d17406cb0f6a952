// The gRPC port: its gate, which accepts connections and hands each to gRPC once that is safe (server/gate), its
// credentials, its limits on connections and messages, and its health service.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/config/config.h"
#include "server/config/values.h"
#include "server/gate/gate.h"
#include "server/grpc/tls_credentials.h"
#include "server/observability/metrics.h"
#include "server/service/call/auth.h"
#include "server/tls/tls_certificates.h"

namespace maxsim {

// Thread-safe, except for Shutdown and destruction.
class GrpcPort {
 public:
  // All of these must outlive the port.
  struct Dependencies {
    const TlsCertificates* certificates = nullptr;          // loaded, if TLS is enabled
    const service::Authenticator* authenticator = nullptr;  // null if calls need no token
    Metrics* metrics = nullptr;                             // if null, nothing is counted
    std::vector<grpc::Service*> services;
  };

  // Listens on config.grpc.address, with TLS if certificates are configured, and in plain text on
  // config.grpc.unix_socket if that is set. Serves the services, and the standard health service, which at first
  // answers NOT_SERVING for every name. Replaces a socket file on which no process listens, and removes its own socket
  // file when the port is closed. Returns UNAVAILABLE with the system's reason if it cannot listen.
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Open(const config::Config& config, Dependencies dependencies);

  // Shuts down at once if Shutdown was not called.
  ~GrpcPort();

  int port() const { return port_; }

  // Sets the health of the whole server and of each service that is enabled.
  void SetHealth(bool serving);

  // Returns OK if a client could be served now: the port accepts a connection, and then answers a call of the health
  // service, each within `limit`. Otherwise returns UNAVAILABLE with the reason. Only one thread at a time may call it.
  absl::Status Probe(absl::Duration limit);

  // Blocks until Shutdown.
  void Wait() { server_->Wait(); }

  // Stops accepting connections and sends GOAWAY to clients. Calls that are still in progress after `grace` are cut
  // off. Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  GrpcPort(const config::Config& config, const config::Address& address, Dependencies dependencies);
  absl::Status Start(const config::Config& config);
  gate::GateDependencies ForGate();
  void HandOver(gate::OwnedFd fd, std::string_view bytes, bool tls);
  void CountRefusedCall(std::string_view path, const absl::Status& status);
  absl::Status ProbeHealth(absl::Duration limit);

  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  Dependencies dependencies_;
  std::vector<std::string> health_names_;  // names that the health service knows; "" is the server as a whole
  std::unique_ptr<gate::Gate> gate_;
  // These take the connections that the gate hands over.
  std::unique_ptr<Acceptor> plain_;
  std::unique_ptr<Acceptor> encrypted_;  // null without TLS
  TlsCredentials credentials_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> within_;  // an in-process channel to server_
  int port_ = 0;
};

}  // namespace maxsim
