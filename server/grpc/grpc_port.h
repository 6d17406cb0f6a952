// Has the gRPC port: a gate that accepts connections, credentials, limits of connections and messages, health.
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

// The class is thread-safe but for Shutdown and destruction.
class GrpcPort {
 public:
  // Everything but the services must be there when the port opens, and outlive it; so must the services.
  struct Dependencies {
    const TlsCertificates* certificates = nullptr;          // loaded where they are enabled
    const service::Authenticator* authenticator = nullptr;  // null where calls need no token
    Metrics* metrics = nullptr;                             // null counts nothing
    std::vector<grpc::Service*> services;
  };

  // Listens on config.grpc.address, encrypted where the certificates are enabled, and on config.grpc.unix_socket where
  // there is one, in plain text; serves the services, and the standard health service with every name NOT_SERVING. A
  // socket that nobody listens on is replaced; it is removed with the port. UNAVAILABLE with the system's
  // reason when the address or the socket cannot be had.
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Open(const config::Config& config, Dependencies dependencies);

  // Shuts down at once if Shutdown was not called.
  ~GrpcPort();

  int port() const { return port_; }

  // Sets the health of the whole server and of each service that is enabled.
  void SetHealth(bool serving);

  // Returns whether a client could be served now: a connection to the port is accepted, and a call of the health
  // service is answered, each within `limit`. UNAVAILABLE with the reason. One call at a time.
  absl::Status Probe(absl::Duration limit);

  // Blocks until Shutdown.
  void Wait() { server_->Wait(); }

  // Accepts no more, tells clients to go away, and cuts off what is in progress after `grace`. Idempotent.
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
  std::vector<std::string> health_names_;  // that the health service knows; "" is the server as a whole
  std::unique_ptr<gate::Gate> gate_;
  // Take what the gate gives away.
  std::unique_ptr<Acceptor> plain_;
  std::unique_ptr<Acceptor> encrypted_;  // null without TLS
  TlsCredentials credentials_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> within_;  // to server_, without a connection
  int port_ = 0;
};

}  // namespace maxsim
