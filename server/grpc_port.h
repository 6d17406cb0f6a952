// The gRPC port: credentials, limits of connections and messages, health.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "server/config/config.h"
#include "server/tls_certificates.h"

namespace maxsim {

struct GrpcPort {
  std::unique_ptr<grpc::Server> server;
  int port = 0;
  std::vector<std::string> health_names;  // that the health service knows; "" is the server as a whole
};

// Listens on config.grpc.address, encrypted where `certificates` are enabled (they must be loaded), and on
// config.grpc.unix_socket where there is one, in plain text; serves `services`, and the standard health service with
// every name NOT_SERVING. `certificates` and `services` must outlive the server. A socket that nobody listens
// on is replaced; it is removed with the server. Two processes that do this at once may both take it for such a one,
// and the later has it. UNAVAILABLE with the system's reason when the address or the socket cannot be had.
absl::StatusOr<GrpcPort> OpenGrpcPort(const config::Config& config, TlsCertificates& certificates,
                                      const std::vector<grpc::Service*>& services);

// Sets the health of the whole server and of each service that is enabled. `port` must be open.
void SetHealth(const GrpcPort& port, bool serving);

}  // namespace maxsim
