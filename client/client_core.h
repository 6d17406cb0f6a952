// The connections of a Client, and one attempt of a call over one of them. Internal to client*.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "client/client.h"
#include "client/grpc_support.h"
#include "client/retry.h"
#include "client/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"

namespace maxsim::client {

// How long a call that is not retried waits for a connection.
inline constexpr absl::Duration kConnectWait = absl::Seconds(1);

inline absl::Time DeadlineOf(const CallOptions& call, absl::Duration default_timeout) {
  // The sum saturates: an infinite timeout gives absl::InfiniteFuture().
  return MonotonicNow() + (call.timeout == absl::ZeroDuration() ? default_timeout : call.timeout);
}

inline std::optional<std::string> PushbackOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(kPushbackTrailer);
  if (found == trailers.end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

struct Client::Core {
  struct Connection {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::Reranker::Stub> reranker;
    std::unique_ptr<v1::Documents::Stub> documents;
    std::unique_ptr<v1::Admin::Stub> admin;
  };

  explicit Core(const ClientOptions& client_options) : options(client_options), metadata(client_options) {}

  const Connection& Next() { return connections[next.fetch_add(1, std::memory_order_relaxed) % connections.size()]; }

  RetryOptions Retry(const CallOptions& call) const {
    RetryOptions retry = options.retry;
    if (call.max_attempts > 0) retry.max_attempts = call.max_attempts;
    return retry;
  }

  void Prepare(absl::Time deadline, grpc::ClientContext& context) const {
    if (deadline != absl::InfiniteFuture()) context.set_deadline(ToGrpcTime(deadline));
    metadata.AddTo(context);
  }

  // Makes one synchronous attempt by `method` of the connection's stub.
  template <typename Stub, typename Request, typename Response>
  AttemptResult Attempt(const Connection& connection, std::unique_ptr<Stub> Connection::*stub,
                        grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                        const Request& request, absl::Time deadline, Response& response) const {
    grpc::ClientContext context;
    Prepare(deadline, context);
    response.Clear();
    const grpc::Status status = ((*(connection.*stub)).*method)(&context, request, &response);
    return AttemptResult{FromGrpcStatus(status), PushbackOf(context)};
  }

  // Makes a synchronous call, each attempt over the next connection. `note_failure` gets the error of each attempt that
  // fails.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      std::unique_ptr<Stub> Connection::*stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
      absl::Time deadline, const RetryOptions& retry,
      absl::FunctionRef<void(const absl::Status&)> note_failure = [](const absl::Status&) {}) {
    Response response;
    const auto attempt = [&] {
      AttemptResult result = Attempt(Next(), stub, method, request, deadline, response);
      if (!result.status.ok()) note_failure(result.status);
      return result;
    };
    absl::Status status = RunWithRetries(retry, deadline, Clock::Real(), UniformRandom, attempt);
    if (!status.ok()) return status;
    return response;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> AdminCall(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                             Response*),
                                     const Request& request, const CallOptions& call) {
    const absl::Time deadline = DeadlineOf(call, options.admin_timeout);
    const Connection& connection = Next();
    // The call is not retried, and an attempt to connect may fail by chance. So wait for a connection first.
    connection.channel->WaitForConnected(ToGrpcTime(std::min(deadline, MonotonicNow() + kConnectWait)));
    Response response;
    absl::Status status = Attempt(connection, &Connection::admin, method, request, deadline, response).status;
    if (!status.ok()) return status;
    return response;
  }

  const ClientOptions options;
  const CallMetadata metadata;
  std::vector<Connection> connections;
  std::atomic<size_t> next{0};

  absl::Mutex mutex;
  // Asynchronous calls whose callback has not returned yet.
  absl::flat_hash_set<std::shared_ptr<AsyncCall>> calls ABSL_GUARDED_BY(mutex);
};

}  // namespace maxsim::client
