// A fake maxsimd server: returns the answers that a test sets, over real gRPC on a free port.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"
#include "tests/support/connections/call_order.h"

namespace maxsim::test {

// Handlers run on gRPC's threads and must be thread-safe. Set handlers and other members only while no call is running.
class FakeServer : public v1::Reranker::Service, public v1::Documents::Service, public v1::Admin::Service {
 public:
  using RerankHandler =
      std::function<grpc::Status(grpc::ServerContext&, const v1::RerankRequest&, v1::RerankResponse&)>;
  using ExplainHandler =
      std::function<grpc::Status(grpc::ServerContext&, const v1::RerankRequest&, v1::ExplainResponse&)>;
  using UpsertHandler =
      std::function<grpc::Status(grpc::ServerContext&, const v1::UpsertRequest&, v1::UpsertResponse&)>;
  using DeleteHandler =
      std::function<grpc::Status(grpc::ServerContext&, const v1::DeleteRequest&, v1::DeleteResponse&)>;
  using ScrollHandler =
      std::function<grpc::Status(grpc::ServerContext&, const v1::ScrollRequest&, v1::ScrollResponse&)>;
  using CountHandler = std::function<grpc::Status(grpc::ServerContext&, const v1::CountRequest&, v1::CountResponse&)>;
  using FacetsHandler =
      std::function<grpc::Status(grpc::ServerContext&, const v1::FacetsRequest&, v1::FacetsResponse&)>;
  using GetHandler = std::function<grpc::Status(grpc::ServerContext&, const v1::GetRequest&, v1::GetResponse&)>;

  // Listens on 127.0.0.1. A port of 0 selects a free one.
  explicit FakeServer(int port = 0) {
    CallOrder::Begin();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::Reranker::Service*>(this));
    builder.RegisterService(static_cast<v1::Documents::Service*>(this));
    builder.RegisterService(static_cast<v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~FakeServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  // Returns the value of the metadata `key` in the latest call of any method, or "" if that call had no such metadata.
  std::string metadata(const std::string& key) const {
    const MutexLock lock(&mutex_);
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? "" : found->second;
  }

  RerankHandler on_rerank;
  ExplainHandler on_explain;
  UpsertHandler on_upsert;
  DeleteHandler on_delete;
  GetHandler on_get;
  ScrollHandler on_scroll;
  CountHandler on_count;
  FacetsHandler on_facets;
  using BootstrapHandler =
      std::function<grpc::Status(const v1::BootstrapCollectionRequest&, v1::BootstrapCollectionResponse&)>;
  using SetLayoutHandler = std::function<grpc::Status(const v1::SetLayoutRequest&, v1::SetLayoutResponse&)>;
  BootstrapHandler on_bootstrap;
  SetLayoutHandler on_set_layout;  // gets an answer with the request's owners and the next revision
  std::function<grpc::Status(const v1::UnloadCollectionRequest&)> on_unload;
  std::function<grpc::Status(const v1::ReloadCollectionRequest&, v1::ReloadCollectionResponse&)> on_reload;
  // Runs in each call of Admin, before the answer.
  std::function<void(const grpc::ServerContext&, std::string_view method)> on_admin;
  // Answers GetInfo. If it is not set, `info` is the answer.
  std::function<grpc::Status(v1::GetInfoResponse&)> on_info;
  v1::GetInfoResponse info;
  grpc::Status admin_status = grpc::Status::OK;
  // The collection name in answers to changes of collections, for tests of a wrong name. "" means the right name.
  std::string answered_name;
  uint64_t snapshot_sequence = 41;
  // The last requests of these calls. Read them only after the calls are answered.
  v1::CreateCollectionRequest created;
  v1::SnapshotCollectionRequest snapshot;
  std::vector<v1::ReadSnapshotResponse> snapshot_messages;  // what ReadSnapshot sends before its status
  v1::BootstrapCollectionRequest bootstrap;
  std::atomic<int> num_reranks{0};
  std::atomic<int> num_admin_calls{0};
  std::atomic<int> num_document_calls{0};

  grpc::Status Rerank(grpc::ServerContext* context, const v1::RerankRequest* request,
                      v1::RerankResponse* response) override {
    ++num_reranks;
    Note(*context);
    response->set_request_id(request->request_id());
    return on_rerank ? on_rerank(*context, *request, *response) : grpc::Status::OK;
  }

  grpc::Status RerankStream(grpc::ServerContext* context,
                            grpc::ServerReaderWriter<v1::RerankStreamResponse, v1::RerankRequest>* stream) override {
    v1::RerankRequest request;
    while (stream->Read(&request)) {
      v1::RerankStreamResponse answer;
      answer.set_request_id(request.request_id());
      const grpc::Status status = Rerank(context, &request, answer.mutable_response());
      answer.set_code(status.error_code());
      answer.set_message(status.error_message());
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) answer.set_retry_after_ms(25);
      stream->Write(answer);
    }
    return grpc::Status::OK;
  }

  grpc::Status Explain(grpc::ServerContext* context, const v1::RerankRequest* request,
                       v1::ExplainResponse* response) override {
    Note(*context);
    return on_explain ? on_explain(*context, *request, *response) : grpc::Status::OK;
  }

  grpc::Status GetInfo(grpc::ServerContext* context, const v1::GetInfoRequest*,
                       v1::GetInfoResponse* response) override {
    Note(*context);
    if (on_info) return on_info(*response);
    *response = info;
    return grpc::Status::OK;
  }

  grpc::Status Upsert(grpc::ServerContext* context, const v1::UpsertRequest* request,
                      v1::UpsertResponse* response) override {
    return AnswerDocuments(on_upsert, *context, *request, *response);
  }
  grpc::Status Delete(grpc::ServerContext* context, const v1::DeleteRequest* request,
                      v1::DeleteResponse* response) override {
    return AnswerDocuments(on_delete, *context, *request, *response);
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GetRequest* request, v1::GetResponse* response) override {
    return AnswerDocuments(on_get, *context, *request, *response);
  }
  grpc::Status Scroll(grpc::ServerContext* context, const v1::ScrollRequest* request,
                      v1::ScrollResponse* response) override {
    return AnswerDocuments(on_scroll, *context, *request, *response);
  }
  grpc::Status Count(grpc::ServerContext* context, const v1::CountRequest* request,
                     v1::CountResponse* response) override {
    return AnswerDocuments(on_count, *context, *request, *response);
  }
  grpc::Status Facets(grpc::ServerContext* context, const v1::FacetsRequest* request,
                      v1::FacetsResponse* response) override {
    return AnswerDocuments(on_facets, *context, *request, *response);
  }

  grpc::Status ListCollections(grpc::ServerContext* context, const v1::ListCollectionsRequest*,
                               v1::ListCollectionsResponse* response) override {
    NoteAdmin(*context, "ListCollections");
    *response->mutable_collections() = info.collections();
    return admin_status;
  }
  grpc::Status LoadCollection(grpc::ServerContext* context, const v1::LoadCollectionRequest* request,
                              v1::LoadCollectionResponse* response) override {
    NoteAdmin(*context, "LoadCollection");
    response->mutable_collection()->set_name(NameFor(*request));
    response->mutable_collection()->set_path(request->path());
    response->mutable_collection()->set_residency(request->residency());
    if (request->live()) response->mutable_collection()->mutable_live();
    return admin_status;
  }
  grpc::Status ReloadCollection(grpc::ServerContext* context, const v1::ReloadCollectionRequest* request,
                                v1::ReloadCollectionResponse* response) override {
    NoteAdmin(*context, "ReloadCollection");
    response->mutable_collection()->set_name(NameFor(*request));
    response->set_changed(true);
    return on_reload ? on_reload(*request, *response) : admin_status;
  }
  grpc::Status UnloadCollection(grpc::ServerContext* context, const v1::UnloadCollectionRequest* request,
                                v1::UnloadCollectionResponse*) override {
    NoteAdmin(*context, "UnloadCollection");
    return on_unload ? on_unload(*request) : admin_status;
  }
  grpc::Status CreateCollection(grpc::ServerContext* context, const v1::CreateCollectionRequest* request,
                                v1::CreateCollectionResponse* response) override {
    NoteAdmin(*context, "CreateCollection");
    created = *request;
    response->mutable_collection()->set_name(NameFor(*request));
    response->mutable_collection()->set_dim(request->dim());
    response->mutable_collection()->set_storage(request->storage());
    response->mutable_collection()->mutable_live();
    return admin_status;
  }
  grpc::Status CompactCollection(grpc::ServerContext* context, const v1::CompactCollectionRequest* request,
                                 v1::CompactCollectionResponse* response) override {
    NoteAdmin(*context, "CompactCollection");
    response->mutable_collection()->set_name(NameFor(*request));
    response->set_changed(true);
    return admin_status;
  }
  grpc::Status SnapshotCollection(grpc::ServerContext* context, const v1::SnapshotCollectionRequest* request,
                                  v1::SnapshotCollectionResponse* response) override {
    NoteAdmin(*context, "SnapshotCollection");
    snapshot = *request;
    response->set_sequence(snapshot_sequence);
    return admin_status;
  }
  grpc::Status ReadSnapshot(grpc::ServerContext* context, const v1::ReadSnapshotRequest*,
                            grpc::ServerWriter<v1::ReadSnapshotResponse>* writer) override {
    NoteAdmin(*context, "ReadSnapshot");
    for (const v1::ReadSnapshotResponse& message : snapshot_messages) {
      if (!writer->Write(message)) break;
    }
    return admin_status;
  }
  grpc::Status BootstrapCollection(grpc::ServerContext* context, const v1::BootstrapCollectionRequest* request,
                                   v1::BootstrapCollectionResponse* response) override {
    NoteAdmin(*context, "BootstrapCollection");
    bootstrap = *request;
    if (on_bootstrap) return on_bootstrap(*request, *response);
    response->mutable_collection()->set_name(request->name());
    response->set_fetched_bytes(3 << 20);
    return admin_status;
  }
  grpc::Status SetLayout(grpc::ServerContext* context, const v1::SetLayoutRequest* request,
                         v1::SetLayoutResponse* response) override {
    NoteAdmin(*context, "SetLayout");
    response->mutable_layout()->set_revision(request->expected_revision() + 1);
    *response->mutable_layout()->mutable_owners() = request->owners();
    return on_set_layout ? on_set_layout(*request, *response) : admin_status;
  }

 private:
  template <typename Handler, typename Request, typename Response>
  grpc::Status AnswerDocuments(const Handler& handler, grpc::ServerContext& context, const Request& request,
                               Response& response) {
    ++num_document_calls;
    Note(context);
    return handler ? handler(context, request, response) : grpc::Status::OK;
  }
  template <typename Request>
  std::string NameFor(const Request& request) const {
    return answered_name.empty() ? request.name() : answered_name;
  }
  void NoteAdmin(const grpc::ServerContext& context, std::string_view method) {
    ++num_admin_calls;
    Note(context);
    if (on_admin) on_admin(context, method);
  }
  // Every method calls this before it reads a member that a test may have set.
  void Note(const grpc::ServerContext& context) {
    CallOrder::Observe();
    const MutexLock lock(&mutex_);
    metadata_.clear();
    for (const auto& [key, value] : context.client_metadata()) {
      metadata_.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
    }
  }

  int port_ = 0;
  mutable Mutex mutex_;
  std::map<std::string, std::string> metadata_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace maxsim::test
