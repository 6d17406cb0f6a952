#include "server/rpc/admin.h"

#include <utility>

#include "kernels/monotonic_clock.h"
#include "server/logging.h"
#include "server/rpc/grpc_call.h"
#include "server/rpc/status.h"
#include "server/rpc/wire.h"

namespace maxsim::rpc {

template <typename Request, typename Response>
grpc::ServerUnaryReactor* Admin::RunOnWorker(grpc::CallbackServerContext* context, const char* method,
                                             const grpc::ByteBuffer& request, grpc::ByteBuffer* response,
                                             absl::AnyInvocable<absl::Status(const Request&, Response&)> work) {
  const CallTracker::Call arriving(calls_);  // already while it is parsed
  const absl::Time arrival = MonotonicNow();
  Request parsed;
  absl::Status status = Authenticate(*authenticator_, *context, Scope::kAdmin);
  if (status.ok()) status = ParseMessage(request, parsed);
  if (status.ok() && !accepts_changes_) {
    status = absl::UnavailableError("the server is loading its configured collections");
  }
  auto* reactor = new UnaryCall(calls_);
  const auto finish = [this, reactor, arrival, method](const absl::Status& end) {
    metrics_->CountRequest(method, end.code(), MonotonicNow() - arrival);
    reactor->Finish(ToGrpc(end));
  };
  if (!status.ok()) {
    finish(status);
    return reactor;
  }
  log::Write(spdlog::level::info, "admin_call",
             {{"method", method}, {"name", parsed.name()}, {"peer", context->peer()}});
  worker_->Post(
      [finish, parsed = std::move(parsed), response, work = std::move(work)](const absl::Status& turn) mutable {
        if (!turn.ok()) return finish(turn);
        Response answer;
        const absl::Status done = work(parsed, answer);
        if (done.ok()) *response = ToBuffer(answer);
        finish(done);
      });
  return reactor;
}

grpc::ServerUnaryReactor* Admin::ListCollections(grpc::CallbackServerContext* context,
                                                 const v1::ListCollectionsRequest*,
                                                 v1::ListCollectionsResponse* response) {
  const absl::Time arrival = MonotonicNow();
  const absl::Status status = Authenticate(*authenticator_, *context, Scope::kAdmin);
  if (status.ok()) {
    for (v1::CollectionInfo& info : collections_->List()) *response->add_collections() = std::move(info);
  }
  metrics_->CountRequest("ListCollections", status.code(), MonotonicNow() - arrival);
  auto* reactor = new UnaryCall(calls_);
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* Admin::LoadCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return RunOnWorker<v1::LoadCollectionRequest, v1::LoadCollectionResponse>(
      context, "LoadCollection", *request, response,
      [this](const v1::LoadCollectionRequest& wanted, v1::LoadCollectionResponse& answer) {
        auto info = collections_->LoadForClient(wanted.name(), wanted.path(), wanted.residency(), wanted.replicate());
        if (!info.ok()) return info.status();
        *answer.mutable_collection() = *std::move(info);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* Admin::ReloadCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return RunOnWorker<v1::ReloadCollectionRequest, v1::ReloadCollectionResponse>(
      context, "ReloadCollection", *request, response,
      [this](const v1::ReloadCollectionRequest& wanted, v1::ReloadCollectionResponse& answer) {
        bool changed = false;
        auto info = collections_->Reload(wanted.name(), &changed);
        if (!info.ok()) return info.status();
        *answer.mutable_collection() = *std::move(info);
        answer.set_changed(changed);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* Admin::UnloadCollection(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return RunOnWorker<v1::UnloadCollectionRequest, v1::UnloadCollectionResponse>(
      context, "UnloadCollection", *request, response,
      [this](const v1::UnloadCollectionRequest& wanted, v1::UnloadCollectionResponse&) {
        return collections_->Unload(wanted.name());
      });
}

}  // namespace maxsim::rpc
