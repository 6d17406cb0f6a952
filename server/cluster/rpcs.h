// The methods of replicas that a router calls.
#pragma once

#include <functional>
#include <utility>

#include "server/cluster/group_call.h"
#include "server/cluster/replica.h"

namespace maxsim::cluster {

inline constexpr Rpc<v1::RerankRequest, v1::RerankResponse> kRerankRpc = {
    "Rerank", [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::RerankRequest* request,
                 v1::RerankResponse* response, std::function<void(grpc::Status)> done) {
      stubs.reranker->async()->Rerank(context, request, response, std::move(done));
    }};

inline constexpr Rpc<v1::RerankRequest, v1::ExplainResponse> kExplainRpc = {
    "Explain", [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::RerankRequest* request,
                  v1::ExplainResponse* response, std::function<void(grpc::Status)> done) {
      stubs.reranker->async()->Explain(context, request, response, std::move(done));
    }};

inline constexpr Rpc<v1::UpsertRequest, v1::UpsertResponse> kUpsertRpc = {
    "Upsert", [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::UpsertRequest* request,
                 v1::UpsertResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Upsert(context, request, response, std::move(done));
    }};

inline constexpr Rpc<v1::DeleteRequest, v1::DeleteResponse> kDeleteRpc = {
    "Delete", [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::DeleteRequest* request,
                 v1::DeleteResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Delete(context, request, response, std::move(done));
    }};

inline constexpr Rpc<v1::GetRequest, v1::GetResponse> kGetRpc = {
    "Get", [](const ReplicaStubs& stubs, grpc::ClientContext* context, const v1::GetRequest* request,
              v1::GetResponse* response, std::function<void(grpc::Status)> done) {
      stubs.documents->async()->Get(context, request, response, std::move(done));
    }};

}  // namespace maxsim::cluster
