#include "server/grpc/grpc_port.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"
#include "server/grpc/grpc_call.h"

namespace maxsim {
namespace {

// The minimum time that clients must wait between pings on an idle connection. gRPC's default of five minutes is too
// long for load balancers.
constexpr int kMinPingIntervalMs = 10'000;

constexpr uint64_t kLeastMemoryBytes = uint64_t{512} << 20;

// Converts to gRPC's int milliseconds, rounded up. Configured times never overflow.
int ToMilliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))));
}

void AddLimits(const config::Config& config, grpc::ServerBuilder& builder) {
  // Limit the memory that gRPC takes for messages. gRPC checks the length of a message only after it has received the
  // whole message, even if the length that the message announces is too large.
  grpc::ResourceQuota quota("maxsimd");
  quota.Resize(config.grpc.max_memory_bytes > 0 ? config.grpc.max_memory_bytes
                                                : std::max(kLeastMemoryBytes, 4 * config.limits.max_request_bytes));
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.limits.max_request_bytes));
  // Refuse compressed messages: calls that send one end with UNIMPLEMENTED. A compressed message could expand to any
  // size before its length is checked.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.grpc.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  // The gate (server/gate), which accepts connections, hands a TLS connection to gRPC before the handshake. So gRPC
  // performs the handshake, and must limit its time.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, ToMilliseconds(config.grpc.first_call_timeout));
  if (config.grpc.max_connection_idle > absl::ZeroDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, ToMilliseconds(config.grpc.max_connection_idle));
  }
  if (config.grpc.max_connection_age > absl::ZeroDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, ToMilliseconds(config.grpc.max_connection_age));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               ToMilliseconds(config.grpc.max_connection_age_grace));
  }
}

std::string_view NameOf(gate::CloseReason reason) {
  switch (reason) {
    case gate::CloseReason::kFull:
      return "full";
    case gate::CloseReason::kPeerFull:
      return "peer_full";
    case gate::CloseReason::kTimeout:
      return "timeout";
    case gate::CloseReason::kMalformed:
      return "malformed";
    case gate::CloseReason::kUnauthenticated:
      return "unauthenticated";
  }
  return "other";
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Open(const config::Config& config, Dependencies dependencies) {
  const absl::StatusOr<config::Address> address = config::ParseAddress(config.grpc.address);
  if (!address.ok()) return address.status();
  std::unique_ptr<GrpcPort> port(new GrpcPort(config, *address, std::move(dependencies)));
  const absl::StatusOr<int> number = port->gate_->Listen();
  if (!number.ok()) return number.status();
  port->port_ = *number;
  if (absl::Status status = port->Start(config); !status.ok()) return status;
  return port;
}

GrpcPort::GrpcPort(const config::Config& config, const config::Address& address, Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      health_names_({"", v1::Reranker::service_full_name(), v1::Documents::service_full_name()}),
      gate_(std::make_unique<gate::Gate>(
          gate::GateOptions{.host = address.host,
                            .port = address.port,
                            .address = config.grpc.address,
                            .unix_socket = config.grpc.unix_socket,
                            .tls = dependencies_.certificates->enabled(),
                            .max_connections = config.grpc.max_connections,
                            .max_connections_per_peer = config.grpc.max_connections_per_peer,
                            .max_concurrent_streams = config.grpc.max_concurrent_streams,
                            .first_call_timeout = config.grpc.first_call_timeout},
          ForGate())),
      credentials_(dependencies_.certificates) {
  if (config.admin.enabled) health_names_.emplace_back(v1::Admin::service_full_name());
}

GrpcPort::~GrpcPort() { Shutdown(absl::ZeroDuration()); }

absl::Status GrpcPort::Start(const config::Config& config) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;
  plain_ = builder.experimental().AddExternalConnectionAcceptor(kFromFd, grpc::InsecureServerCredentials());
  if (dependencies_.certificates->enabled()) {
    encrypted_ = builder.experimental().AddExternalConnectionAcceptor(kFromFd, credentials_.Make());
  }
  AddLimits(config, builder);
  for (grpc::Service* service : dependencies_.services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "grpc.address: gRPC cannot start", dependencies_.certificates->enabled() ? " with the files of tls.*" : ""));
  }
  SetHealth(false);
  within_ = server_->InProcessChannel(grpc::ChannelArguments());
  gate_->Start();
  return absl::OkStatus();
}

gate::GateDependencies GrpcPort::ForGate() {
  gate::GateDependencies of_gate;
  of_gate.hand_over = [this](gate::OwnedFd fd, std::string_view bytes, bool tls) {
    HandOver(std::move(fd), bytes, tls);
  };
  const service::Authenticator* const authenticator = dependencies_.authenticator;
  if (authenticator != nullptr && authenticator->enabled(service::Scope::kSearch)) {
    of_gate.authenticate = [authenticator](std::string_view authorization) {
      return authenticator->Identify(authorization, service::Scope::kSearch).status();
    };
  }
  of_gate.on_refused_call = [this](std::string_view path, const absl::Status& status) {
    CountRefusedCall(path, status);
  };
  of_gate.on_closed = [this](gate::CloseReason reason) {
    if (dependencies_.metrics != nullptr) dependencies_.metrics->CountEndedConnection(NameOf(reason));
  };
  of_gate.on_counts = [this](const gate::GateCounts& counts) {
    if (dependencies_.metrics == nullptr) return;
    dependencies_.metrics->SetGrpcConnections("waiting", counts.waiting);
    dependencies_.metrics->SetGrpcConnections("relayed", counts.relayed);
    dependencies_.metrics->SetGrpcConnections("open", counts.handed_over);
  };
  return of_gate;
}

void GrpcPort::HandOver(gate::OwnedFd fd, std::string_view bytes, bool tls) {
  Acceptor::NewConnectionParameters connection;
  if (!bytes.empty()) {
    const grpc::Slice slice(bytes.data(), bytes.size());
    connection.read_buffer = grpc::ByteBuffer(&slice, 1);
  }
  connection.fd = fd.Release();
  (tls ? encrypted_ : plain_)->HandleNewConnection(&connection);
}

void GrpcPort::CountRefusedCall(std::string_view path, const absl::Status& status) {
  if (dependencies_.metrics == nullptr) return;
  // A client may send any path. Use it as a metrics label only if it is "/package.Service/Method" of a method of this
  // server.
  std::string name(path.substr(std::min<size_t>(path.size(), 1)));
  std::replace(name.begin(), name.end(), '/', '.');
  const google::protobuf::MethodDescriptor* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  if (method == nullptr || method->file()->package() != "maxsim.v1") return;
  dependencies_.metrics->CountRequest(method->name(), status.code(), absl::ZeroDuration());
}

void GrpcPort::SetHealth(bool serving) {
  grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  for (const std::string& name : health_names_) health->SetServingStatus(name, serving);
}

absl::Status GrpcPort::Probe(absl::Duration limit) {
  if (absl::Status status = gate_->Probe(limit); !status.ok()) return status;
  return ProbeHealth(limit);
}

absl::Status GrpcPort::ProbeHealth(absl::Duration limit) {
  grpc::GenericStub stub(within_);
  grpc::ClientContext context;
  context.set_deadline(rpc::FromNow(limit));
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  if (status.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the gRPC port answers no call: ", status.error_message()));
}

void GrpcPort::Shutdown(absl::Duration grace) {
  gate_->StopAccepting();
  if (server_ != nullptr) server_->Shutdown(rpc::FromNow(grace));
  gate_->Stop();
}

}  // namespace maxsim
