// Has the maxsim.v1.Admin service over gRPC's callback API. Changes of collections run on worker threads: those of one
// name one after another, those of different names side by side. One ends soon after its client gave up or its deadline
// passed, and leaves everything as it was.
#pragma once

#include <atomic>

#include "base/stop.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "server/grpc/worker.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Requests come raw (message_buffer.h); that of ListCollections, which holds nothing, as gRPC parses it. The base is
// Service, whose methods these replace: CallbackService has all of them typed.
using RawChanges = v1::Admin::WithRawCallbackMethod_CreateCollection<
    v1::Admin::WithRawCallbackMethod_CompactCollection<v1::Admin::WithRawCallbackMethod_SnapshotCollection<
        v1::Admin::WithRawCallbackMethod_UnloadCollection<v1::Admin::Service>>>>;
using RawAdmin = v1::Admin::WithCallbackMethod_ListCollections<
    v1::Admin::WithRawCallbackMethod_LoadCollection<v1::Admin::WithRawCallbackMethod_ReloadCollection<RawChanges>>>;

class GrpcAdmin : public RawAdmin {
 public:
  // All must outlive the gRPC server that this is registered with. `tracer` may be null: calls are not traced.
  GrpcAdmin(service::CollectionApi* collections, const service::Authenticator* authenticator, Worker* worker,
            Metrics* metrics, service::CallTracker* calls, const tracing::Tracer* tracer)
      : collections_(collections),
        authenticator_(authenticator),
        worker_(worker),
        metrics_(metrics),
        calls_(calls),
        tracer_(tracer) {}

  // Until this is called, what changes collections is UNAVAILABLE: a client must not take a configured name first.
  void AcceptChanges() { accepts_changes_ = true; }

  grpc::ServerUnaryReactor* ListCollections(grpc::CallbackServerContext* context,
                                            const v1::ListCollectionsRequest* request,
                                            v1::ListCollectionsResponse* response) override;
  grpc::ServerUnaryReactor* LoadCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReloadCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* UnloadCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* CreateCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* CompactCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* SnapshotCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) override;

 private:
  // Does what a call asks for, until its context is stopped.
  template <typename Request, typename Response>
  using Work = absl::AnyInvocable<absl::Status(const Request&, Response&, const service::ChangeContext&)>;

  // Authenticates, parses, then runs `work` on the worker and answers with its status; UNAVAILABLE when the worker
  // stops first.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* RunOnWorker(grpc::CallbackServerContext* context, const char* method, Worker::Length length,
                                        const grpc::ByteBuffer& request, grpc::ByteBuffer* response,
                                        Work<Request, Response> work);

  service::CollectionApi* const collections_;
  const service::Authenticator* const authenticator_;
  Worker* const worker_;
  Metrics* const metrics_;
  service::CallTracker* const calls_;
  const tracing::Tracer* const tracer_;
  std::atomic<bool> accepts_changes_{false};
};

}  // namespace maxsim::rpc
