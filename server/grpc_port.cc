#include "server/grpc_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"
#include "server/config/values.h"

namespace maxsim {
namespace {

// Clients may keep idle connections alive this often; gRPC's own limit of five minutes suits no load balancer.
constexpr int kMinPingIntervalMs = 10'000;

// gRPC says only that it failed. Binding once by hand says why.
absl::Status CheckBindable(const std::string& text) {
  const absl::StatusOr<config::Address> address = config::ParseAddress(text);
  if (!address.ok()) return address.status();
  const std::string prefix = absl::StrCat("grpc.address: cannot listen on ", text, ": ");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address->host.c_str(), absl::StrCat(address->port).c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat(prefix, gai_strerror(error)));
  absl::Status status;
  const int socket_fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (socket_fd >= 0) {
    const int yes = 1;
    setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  }
  if (socket_fd < 0 || bind(socket_fd, found->ai_addr, found->ai_addrlen) != 0) {
    status = absl::UnavailableError(absl::StrCat(prefix, std::strerror(errno)));
  }
  if (socket_fd >= 0) close(socket_fd);
  freeaddrinfo(found);
  return status;
}

// Likewise of a socket's path, which must not belong to a server that listens on it: gRPC would take it away from that.
absl::Status CheckSocket(const std::string& path) {
  const auto problem = [&path](int error) {
    return absl::UnavailableError(
        absl::StrCat("grpc.unix_socket: cannot listen on ", path, ": ", std::strerror(error)));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  struct stat file {};
  const bool is_there = lstat(path.c_str(), &file) == 0;
  if (is_there && !S_ISSOCK(file.st_mode)) return problem(EEXIST);
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_fd < 0) return problem(errno);
  absl::Status status;
  if (is_there) {
    // EAGAIN: somebody listens, and has no time.
    if (connect(socket_fd, name, sizeof(address)) == 0 || errno == EAGAIN) {
      status = problem(EADDRINUSE);
    } else if (errno != ECONNREFUSED) {
      status = problem(errno);
    }
  } else if (bind(socket_fd, name, sizeof(address)) != 0) {
    status = problem(errno);
  } else {
    unlink(path.c_str());
  }
  close(socket_fd);
  return status;
}

// gRPC counts in milliseconds, up to INT_MAX; no key's range goes that far.
int ToMilliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))));
}

}  // namespace

absl::StatusOr<GrpcPort> OpenGrpcPort(const config::Config& config, TlsCertificates& certificates,
                                      const std::vector<grpc::Service*>& services) {
  const std::string& unix_socket = config.grpc.unix_socket;
  if (absl::Status status = CheckBindable(config.grpc.address); !status.ok()) return status;
  if (!unix_socket.empty()) {
    if (absl::Status status = CheckSocket(unix_socket); !status.ok()) return status;
  }
  grpc::EnableDefaultHealthCheckService(true);
  GrpcPort opened;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(config.grpc.address,
                           certificates.enabled() ? certificates.Credentials() : grpc::InsecureServerCredentials(),
                           &opened.port);
  if (!unix_socket.empty()) {
    builder.AddListeningPort(absl::StrCat("unix:", unix_socket), grpc::InsecureServerCredentials());
  }
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.limits.max_request_bytes));
  // A compressed message would unfold to any size before its length is looked at: such calls end in UNIMPLEMENTED.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // gRPC's default would let two servers share a port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.grpc.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  if (config.grpc.max_connection_age > absl::ZeroDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, ToMilliseconds(config.grpc.max_connection_age));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               ToMilliseconds(config.grpc.max_connection_age_grace));
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  opened.server = builder.BuildAndStart();
  if (opened.server == nullptr && opened.port != 0 && !unix_socket.empty()) {
    // One that was left behind in a folder that this process may not write.
    return absl::UnavailableError(absl::StrCat("grpc.unix_socket: cannot listen on ", unix_socket));
  }
  if (opened.server == nullptr || opened.port == 0) {
    return absl::UnavailableError(absl::StrCat("grpc.address: cannot listen on ", config.grpc.address,
                                               certificates.enabled() ? " with the files of tls.*" : ""));
  }
  opened.health_names = {"", v1::Reranker::service_full_name()};
  if (config.admin.enabled) opened.health_names.emplace_back(v1::Admin::service_full_name());
  SetHealth(opened, false);
  return opened;
}

void SetHealth(const GrpcPort& port, bool serving) {
  grpc::HealthCheckServiceInterface* const health = port.server->GetHealthCheckService();
  if (health == nullptr) return;
  for (const std::string& name : port.health_names) health->SetServingStatus(name, serving);
}

}  // namespace maxsim
