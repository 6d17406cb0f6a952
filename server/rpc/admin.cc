#include "server/rpc/admin.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/logging.h"
#include "server/rpc/grpc_call.h"
#include "server/rpc/status.h"

namespace maxsim::rpc {

grpc::ServerUnaryReactor* Admin::RunOnWorker(grpc::CallbackServerContext* context, const char* method,
                                             absl::AnyInvocable<absl::Status()> work) {
  const absl::Time arrival = absl::Now();
  auto* reactor = new UnaryCall(calls_);
  const auto finish = [this, reactor, arrival, method](const absl::Status& status) {
    metrics_->CountRequest(method, status.code(), absl::Now() - arrival);
    reactor->Finish(ToGrpc(status));
  };
  if (absl::Status status = Authenticate(*authenticator_, *context, Scope::kAdmin); !status.ok()) {
    finish(status);
    return reactor;
  }
  if (!accepts_changes_) {
    finish(absl::UnavailableError("the server is loading its configured collections"));
    return reactor;
  }
  log::Write(spdlog::level::info, "admin_call", {{"method", method}, {"peer", context->peer()}});
  worker_->Post(
      [finish, work = std::move(work)](const absl::Status& turn) mutable { finish(turn.ok() ? work() : turn); });
  return reactor;
}

grpc::ServerUnaryReactor* Admin::ListCollections(grpc::CallbackServerContext* context,
                                                 const v1::ListCollectionsRequest*,
                                                 v1::ListCollectionsResponse* response) {
  const absl::Time arrival = absl::Now();
  const absl::Status status = Authenticate(*authenticator_, *context, Scope::kAdmin);
  if (status.ok()) {
    for (v1::CollectionInfo& info : collections_->List()) *response->add_collections() = std::move(info);
  }
  metrics_->CountRequest("ListCollections", status.code(), absl::Now() - arrival);
  auto* reactor = new UnaryCall(calls_);
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* Admin::LoadCollection(grpc::CallbackServerContext* context,
                                                const v1::LoadCollectionRequest* request,
                                                v1::LoadCollectionResponse* response) {
  return RunOnWorker(context, "LoadCollection", [this, request, response] {
    auto info =
        collections_->LoadForClient(request->name(), request->path(), request->residency(), request->replicate());
    if (!info.ok()) return info.status();
    *response->mutable_collection() = *std::move(info);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* Admin::ReloadCollection(grpc::CallbackServerContext* context,
                                                  const v1::ReloadCollectionRequest* request,
                                                  v1::ReloadCollectionResponse* response) {
  return RunOnWorker(context, "ReloadCollection", [this, request, response] {
    bool changed = false;
    auto info = collections_->Reload(request->name(), &changed);
    if (!info.ok()) return info.status();
    *response->mutable_collection() = *std::move(info);
    response->set_changed(changed);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* Admin::UnloadCollection(grpc::CallbackServerContext* context,
                                                  const v1::UnloadCollectionRequest* request,
                                                  v1::UnloadCollectionResponse*) {
  return RunOnWorker(context, "UnloadCollection", [this, request] { return collections_->Unload(request->name()); });
}

}  // namespace maxsim::rpc
