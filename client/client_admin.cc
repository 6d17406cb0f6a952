// The calls of the service Admin.
#include <algorithm>
#include <memory>

#include "client/client.h"
#include "client/client_core.h"
#include "grpcpp/support/sync_stream.h"

namespace maxsim::client {

absl::StatusOr<v1::ListCollectionsResponse> Client::ListCollections(const CallOptions& call) {
  return core_->Call(&Core::Connection::admin, &v1::Admin::Stub::ListCollections, v1::ListCollectionsRequest(),
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::LoadCollectionResponse> Client::LoadCollection(const v1::LoadCollectionRequest& request,
                                                                  const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::LoadCollection, request, call);
}

absl::StatusOr<v1::ReloadCollectionResponse> Client::ReloadCollection(const v1::ReloadCollectionRequest& request,
                                                                      const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::ReloadCollection, request, call);
}

absl::StatusOr<v1::UnloadCollectionResponse> Client::UnloadCollection(const v1::UnloadCollectionRequest& request,
                                                                      const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::UnloadCollection, request, call);
}

absl::StatusOr<v1::CreateCollectionResponse> Client::CreateCollection(const v1::CreateCollectionRequest& request,
                                                                      const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::CreateCollection, request, call);
}

absl::StatusOr<v1::CompactCollectionResponse> Client::CompactCollection(const v1::CompactCollectionRequest& request,
                                                                        const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::CompactCollection, request, call);
}

absl::StatusOr<v1::SnapshotCollectionResponse> Client::SnapshotCollection(const v1::SnapshotCollectionRequest& request,
                                                                          const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::SnapshotCollection, request, call);
}

absl::StatusOr<v1::BootstrapCollectionResponse> Client::BootstrapCollection(
    const v1::BootstrapCollectionRequest& request, const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::BootstrapCollection, request, call);
}

absl::Status Client::ReadSnapshot(const v1::ReadSnapshotRequest& request,
                                  absl::FunctionRef<absl::Status(const v1::ReadSnapshotResponse&)> sink,
                                  const CallOptions& call) {
  const absl::Time deadline = DeadlineOf(call, absl::InfiniteDuration());
  const Core::Connection& connection = core_->Next();
  connection.channel->WaitForConnected(ToGrpcTime(std::min(deadline, MonotonicNow() + kConnectWait)));
  grpc::ClientContext context;
  core_->Prepare(deadline, context);
  const std::unique_ptr<grpc::ClientReader<v1::ReadSnapshotResponse>> reader =
      connection.admin->ReadSnapshot(&context, request);
  v1::ReadSnapshotResponse message;
  absl::Status refused;
  while (refused.ok() && reader->Read(&message)) refused = sink(message);
  if (!refused.ok()) context.TryCancel();
  const absl::Status status = FromGrpcStatus(reader->Finish());
  return refused.ok() ? status : refused;
}

absl::StatusOr<v1::SetLayoutResponse> Client::SetLayout(const v1::SetLayoutRequest& request, const CallOptions& call) {
  return core_->AdminCall(&v1::Admin::Stub::SetLayout, request, call);
}

}  // namespace maxsim::client
