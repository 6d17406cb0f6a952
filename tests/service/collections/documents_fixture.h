// A running server whose clients create live collections and write to them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "maxsim/v1/documents.grpc.pb.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {

class DocumentsServiceTest : public testing::Test {
 protected:
  DocumentsServiceTest()
      : server_([this](config::Config* config) { config->allowed_roots = {root_.path()}; }),
        documents_(v1::Documents::NewStub(server_.channel())) {}

  static v1::TokenMatrix Tokens(uint64_t seed, int32_t num_tokens = 4) {
    return ToProto(RandomTokens(seed, ScalarType::kF32, kDim, num_tokens));
  }

  grpc::Status Create(const std::string& name, v1::DataType storage, const std::string& path = "") {
    grpc::ClientContext context;
    v1::CreateCollectionRequest request;
    request.set_name(name);
    request.set_path(path);
    request.set_dim(kDim);
    request.set_storage(storage);
    v1::CreateCollectionResponse response;
    return server_.admin().CreateCollection(&context, request, &response);
  }

  v1::UpsertResponse Upsert(const std::string& collection, const std::vector<std::string>& ids, uint64_t seed,
                            uint64_t version = 0) {
    v1::UpsertRequest request;
    request.set_collection(collection);
    for (const std::string& id : ids) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      *document.mutable_tokens() = Tokens(seed++);
      document.set_payload("{\"id\":\"" + id + "\"}");
      document.set_version(version);
    }
    grpc::ClientContext context;
    v1::UpsertResponse response;
    const grpc::Status status = documents_->Upsert(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  v1::RerankRequest Scan(const std::string& collection) {
    v1::RerankRequest request =
        MakeRequest(collection, MakeQuery(3, ScalarType::kF32, kDim, 5), /*ids=*/{}, /*top_k=*/10);
    request.mutable_candidates()->mutable_whole_collection();
    request.set_return_payloads(true);
    return request;
  }

  v1::RerankResponse Rerank(const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_.Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  TemporaryFolder root_;
  RunningServer server_;
  std::unique_ptr<v1::Documents::Stub> documents_;
};

}  // namespace maxsim::test
