// The maxsim.v1.Admin service over gRPC's callback API. Changes of collections run on worker threads: changes of one
// collection run one after another, changes of different collections in parallel. If the client gives up or its
// deadline passes, a change ends soon and leaves everything as it was. Streams of ReadSnapshot run on threads of their
// own and wait for no change: a bootstrap (a change) may read a snapshot of its own server.
#pragma once

#include <atomic>

#include "base/stop.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "server/grpc/stream_registry.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/service/call/worker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Requests arrive as raw bytes (message_buffer.h), as in grpc_reranker.h.
using RawChanges = v1::Admin::WithRawCallbackMethod_CreateCollection<
    v1::Admin::WithRawCallbackMethod_CompactCollection<v1::Admin::WithRawCallbackMethod_SnapshotCollection<
        v1::Admin::WithRawCallbackMethod_UnloadCollection<v1::Admin::Service>>>>;
using RawCopies =
    v1::Admin::WithRawCallbackMethod_ReadSnapshot<v1::Admin::WithRawCallbackMethod_BootstrapCollection<RawChanges>>;
using RawClusterChanges = v1::Admin::WithRawCallbackMethod_SetLayout<RawCopies>;
using RawAdmin = v1::Admin::WithCallbackMethod_ListCollections<v1::Admin::WithRawCallbackMethod_LoadCollection<
    v1::Admin::WithRawCallbackMethod_ReloadCollection<RawClusterChanges>>>;

class GrpcAdmin : public RawAdmin {
 public:
  // All arguments must outlive the gRPC server. If `tracer` is null, no calls are traced.
  GrpcAdmin(service::CollectionApi* collections, const service::Authenticator* authenticator, service::Worker* worker,
            Metrics* metrics, service::CallTracker* calls, const tracing::Tracer* tracer)
      : collections_(collections),
        authenticator_(authenticator),
        worker_(worker),
        metrics_(metrics),
        calls_(calls),
        tracer_(tracer) {}

  // Until this is called, changes of collections fail with UNAVAILABLE. Otherwise a client could take the name of a
  // configured collection before it is loaded.
  void AcceptChanges() { accepts_changes_ = true; }
  // Returns UNAVAILABLE until AcceptChanges is called.
  absl::Status CheckAccepted() const;

  // Ends the streams of ReadSnapshot with UNAVAILABLE: soon, later ones at once.
  void DrainStreams() { streams_.Drain(); }

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
  grpc::ServerUnaryReactor* SetLayout(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* BootstrapCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadSnapshot(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request) override;

 private:
  // Carries out a call. It ends soon once the context's `stop` is stopped.
  template <typename Request, typename Response>
  using Work = absl::AnyInvocable<absl::Status(const Request&, Response&, const service::ChangeContext&)>;

  // Authenticates the call, parses its request, and runs `work` on a worker thread. Answers with the status of `work`,
  // or with UNAVAILABLE if the worker stops first.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* RunOnWorker(grpc::CallbackServerContext* context, const char* method,
                                        service::Worker::Length length, const grpc::ByteBuffer& request,
                                        grpc::ByteBuffer* response, Work<Request, Response> work);

  service::CollectionApi* const collections_;
  const service::Authenticator* const authenticator_;
  service::Worker* const worker_;
  Metrics* const metrics_;
  service::CallTracker* const calls_;
  const tracing::Tracer* const tracer_;
  std::atomic<bool> accepts_changes_{false};
  StreamRegistry streams_;
  service::Worker stream_threads_;  // last, because its tasks use the other members
};

}  // namespace maxsim::rpc
