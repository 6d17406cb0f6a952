// The methods of replicas that a router calls.
#pragma once

#include <functional>
#include <utility>

#include "server/cluster/groups/replica.h"

namespace maxsim::cluster {

inline constexpr Rpc<v1::RerankRequest, v1::RerankResponse> kRerankRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::RerankRequest* request,
       v1::RerankResponse* response, std::function<void(grpc::Status)> done) {
      stubs.reranker->async()->Rerank(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::RerankRequest, v1::ExplainResponse> kExplainRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::RerankRequest* request,
       v1::ExplainResponse* response, std::function<void(grpc::Status)> done) {
      stubs.reranker->async()->Explain(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::UpsertRequest, v1::UpsertResponse> kUpsertRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::UpsertRequest* request,
       v1::UpsertResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Upsert(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::DeleteRequest, v1::DeleteResponse> kDeleteRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::DeleteRequest* request,
       v1::DeleteResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Delete(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::GetRequest, v1::GetResponse> kGetRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::GetRequest* request,
       v1::GetResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Get(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::ScrollRequest, v1::ScrollResponse> kScrollRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::ScrollRequest* request,
       v1::ScrollResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Scroll(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::CountRequest, v1::CountResponse> kCountRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::CountRequest* request,
       v1::CountResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Count(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::FacetsRequest, v1::FacetsResponse> kFacetsRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::FacetsRequest* request,
       v1::FacetsResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Facets(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::LoadCollectionRequest, v1::LoadCollectionResponse> kLoadRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::LoadCollectionRequest* request,
       v1::LoadCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->LoadCollection(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::CreateCollectionRequest, v1::CreateCollectionResponse> kCreateRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::CreateCollectionRequest* request,
       v1::CreateCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->CreateCollection(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::UnloadCollectionRequest, v1::UnloadCollectionResponse> kUnloadRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::UnloadCollectionRequest* request,
       v1::UnloadCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->UnloadCollection(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::ReloadCollectionRequest, v1::ReloadCollectionResponse> kReloadRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::ReloadCollectionRequest* request,
       v1::ReloadCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->ReloadCollection(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::CompactCollectionRequest, v1::CompactCollectionResponse> kCompactRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::CompactCollectionRequest* request,
       v1::CompactCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->CompactCollection(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::SnapshotCollectionRequest, v1::SnapshotCollectionResponse> kSnapshotRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::SnapshotCollectionRequest* request,
       v1::SnapshotCollectionResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->SnapshotCollection(context, request, response, std::move(done));
    };

inline constexpr Rpc<v1::SetLayoutRequest, v1::SetLayoutResponse> kSetLayoutRpc =
    [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::SetLayoutRequest* request,
       v1::SetLayoutResponse* response, std::function<void(grpc::Status)> done) {
      stubs.admin->async()->SetLayout(context, request, response, std::move(done));
    };

}  // namespace maxsim::cluster
