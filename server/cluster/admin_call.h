// Calls of the Admin service of one server, which may take long and can be given up.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "client/grpc_support.h"
#include "client/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "server/cluster/replica.h"

namespace maxsim::cluster {

template <typename Request, typename Response>
using AdminMethod = void (*)(v1::Admin::Stub& stub, grpc::ClientContext* context, const Request* request,
                             Response* response, std::function<void(grpc::Status)> done);

inline constexpr AdminMethod<v1::LoadCollectionRequest, v1::LoadCollectionResponse> kLoadMethod =
    [](v1::Admin::Stub& stub, grpc::ClientContext* context, const v1::LoadCollectionRequest* request,
       v1::LoadCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stub.async()->LoadCollection(context, request, response, std::move(done));
    };
inline constexpr AdminMethod<v1::CreateCollectionRequest, v1::CreateCollectionResponse> kCreateMethod =
    [](v1::Admin::Stub& stub, grpc::ClientContext* context, const v1::CreateCollectionRequest* request,
       v1::CreateCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stub.async()->CreateCollection(context, request, response, std::move(done));
    };
inline constexpr AdminMethod<v1::UnloadCollectionRequest, v1::UnloadCollectionResponse> kUnloadMethod =
    [](v1::Admin::Stub& stub, grpc::ClientContext* context, const v1::UnloadCollectionRequest* request,
       v1::UnloadCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stub.async()->UnloadCollection(context, request, response, std::move(done));
    };
inline constexpr AdminMethod<v1::ReloadCollectionRequest, v1::ReloadCollectionResponse> kReloadMethod =
    [](v1::Admin::Stub& stub, grpc::ClientContext* context, const v1::ReloadCollectionRequest* request,
       v1::ReloadCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stub.async()->ReloadCollection(context, request, response, std::move(done));
    };
inline constexpr AdminMethod<v1::CompactCollectionRequest, v1::CompactCollectionResponse> kCompactMethod =
    [](v1::Admin::Stub& stub, grpc::ClientContext* context, const v1::CompactCollectionRequest* request,
       v1::CompactCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stub.async()->CompactCollection(context, request, response, std::move(done));
    };
inline constexpr AdminMethod<v1::SnapshotCollectionRequest, v1::SnapshotCollectionResponse> kSnapshotMethod =
    [](v1::Admin::Stub& stub, grpc::ClientContext* context, const v1::SnapshotCollectionRequest* request,
       v1::SnapshotCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stub.async()->SnapshotCollection(context, request, response, std::move(done));
    };

// Loading a large collection takes minutes.
inline constexpr absl::Duration kAdminTimeout = absl::Hours(2);

// Calls a method of a server and blocks until it has answered, or soon after `stop` was stopped: the server is told
// then, and the status is that of `stop`.
template <typename Request, typename Response>
absl::StatusOr<Response> CallAdmin(const Replica& replica, AdminMethod<Request, Response> method,
                                   const Request& request, const StopSignal& stop) {
  struct {
    Mutex mutex;
    ConditionVariable changed;
    bool has_ended ABSL_GUARDED_BY(mutex) = false;
    grpc::Status status ABSL_GUARDED_BY(mutex);
  } call;
  grpc::ClientContext context;
  Response response;
  context.set_deadline(client::ToGrpcTime(MonotonicNow() + kAdminTimeout));
  client::CallMetadata(replica.options()).AddTo(context);
  const ReplicaStubs stubs = replica.stubs();
  method(*stubs.admin, &context, &request, &response, [&call](const grpc::Status& status) {
    const MutexLock lock(&call.mutex);
    call.status = status;
    call.has_ended = true;
    call.changed.NotifyAll();
  });
  MutexLock lock(&call.mutex);
  while (!call.has_ended) {
    if (stop.stopped()) context.TryCancel();
    call.changed.WaitFor(lock, std::chrono::milliseconds(50));
  }
  if (call.status.ok()) return response;
  return stop.stopped() ? stop.status() : client::FromGrpcStatus(call.status);
}

}  // namespace maxsim::cluster
