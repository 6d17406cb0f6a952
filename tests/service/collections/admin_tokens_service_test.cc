// Tests which calls each kind of token allows, and that a revoked token allows none.
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "tests/service/collections/admin_calls.h"
#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(AdminServiceTest, WithTokensOnlyTheirBearersAreServed) {
  TemporaryFolder folder;
  WriteFile(folder / "tokens", "secret\n");
  RunningServer server([&](config::Config* config) { config->auth.tokens_file = folder / "tokens"; });
  const auto request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
  const auto call = [&](const std::string& authorization) {
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    v1::RerankResponse response;
    return server.stub().Rerank(&context, request, &response).error_code();
  };
  EXPECT_EQ(call(""), grpc::UNAUTHENTICATED);
  EXPECT_EQ(call("Bearer wrong"), grpc::UNAUTHENTICATED);
  EXPECT_EQ(call("Bearer secret"), grpc::OK);
  EXPECT_EQ(Unload(server, "corpus").error_code(), grpc::UNAUTHENTICATED);
  {
    grpc::ClientContext context;
    auto stream = server.stub().RerankStream(&context);
    stream->Write(request);
    EXPECT_EQ(stream->Finish().error_code(), grpc::UNAUTHENTICATED);
    EXPECT_THAT(server.server().metrics().Expose(),
                HasSubstr("maxsim_requests_total{code=\"UNAUTHENTICATED\",method=\"RerankStream\"} 1"));
  }
  {
    grpc::ClientContext context;
    v1::GetInfoResponse info;
    EXPECT_EQ(server.stub().GetInfo(&context, {}, &info).error_code(), grpc::UNAUTHENTICATED);
  }
  EXPECT_EQ(HealthOf(server.channel(), ""), Health::kServing);
  EXPECT_EQ(HttpGet(server.http_port(), "/v1/collections").status, 401);
  EXPECT_EQ(HttpGet(server.http_port(), "/v1/collections", "secret").status, 200);
  EXPECT_EQ(HttpPost(server.http_port(), "/v1/rerank", "{}", "application/json").status, 401);
  EXPECT_EQ(HttpPost(server.http_port(), "/v1/rerank", "{}", "application/json", "secret").status, 400);
  EXPECT_EQ(HttpGet(server.http_port(), "/metrics").status, 200);
  EXPECT_EQ(HttpGet(server.http_port(), "/readyz").status, 200);

  // A reload reads the new tokens. They also apply to streams that are already open.
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer secret");
  auto stream = server.stub().RerankStream(&context);
  v1::RerankStreamResponse answer;
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.code(), 0);
  WriteFile(folder / "tokens", "fresh\n");
  server.server().RequestReload();
  EXPECT_EQ(call("Bearer fresh"), grpc::OK);
  EXPECT_EQ(call("Bearer secret"), grpc::UNAUTHENTICATED);
  stream->Write(request);
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAUTHENTICATED);
}

TEST(AdminServiceTest, WithTokensForAdministrationThoseForSearchChangeNothing) {
  TemporaryFolder folder;
  Publish(folder / "second", ServedDocuments(77));
  WriteFile(folder / "tokens", "searcher\n");
  WriteFile(folder / "admin_tokens", "operator\n");
  RunningServer server([&](config::Config* config) {
    config->auth.tokens_file = folder / "tokens";
    config->auth.admin_tokens_file = folder / "admin_tokens";
    config->allowed_roots = {folder.path()};
  });
  // Makes all four calls of the service, in an order in which they all succeed if the token allows them.
  const auto administer = [&](const std::string& token) {
    std::vector<grpc::Status> statuses;
    const auto call = [&](const auto& make) {
      grpc::ClientContext context;
      if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
      statuses.push_back(make(&context));
    };
    call([&](grpc::ClientContext* context) {
      v1::LoadCollectionRequest request;
      request.set_name("second");
      request.set_path(folder / "second");
      v1::LoadCollectionResponse response;
      return server.admin().LoadCollection(context, request, &response);
    });
    call([&](grpc::ClientContext* context) {
      v1::ListCollectionsResponse response;
      return server.admin().ListCollections(context, {}, &response);
    });
    call([&](grpc::ClientContext* context) {
      v1::ReloadCollectionRequest request;
      request.set_name("second");
      v1::ReloadCollectionResponse response;
      return server.admin().ReloadCollection(context, request, &response);
    });
    call([&](grpc::ClientContext* context) {
      v1::UnloadCollectionRequest request;
      request.set_name("second");
      v1::UnloadCollectionResponse response;
      return server.admin().UnloadCollection(context, request, &response);
    });
    return statuses;
  };
  for (const grpc::Status& status : administer("")) EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED);
  for (const grpc::Status& status : administer("wrong")) EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED);
  for (const grpc::Status& status : administer("searcher")) {
    EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("auth.admin_tokens_file"));
  }
  for (const grpc::Status& status : administer("operator")) EXPECT_TRUE(status.ok()) << status.error_message();

  // Both tokens allow searches, on both ports.
  const auto request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
  for (const char* token : {"searcher", "operator"}) {
    grpc::ClientContext rerank, get_info;
    rerank.AddMetadata("authorization", std::string("Bearer ") + token);
    get_info.AddMetadata("authorization", std::string("Bearer ") + token);
    v1::RerankResponse response;
    EXPECT_TRUE(server.stub().Rerank(&rerank, request, &response).ok()) << token;
    v1::GetInfoResponse info;
    EXPECT_TRUE(server.stub().GetInfo(&get_info, {}, &info).ok()) << token;
    EXPECT_EQ(HttpGet(server.http_port(), "/v1/collections", token).status, 200) << token;
    EXPECT_EQ(HttpPost(server.http_port(), "/v1/rerank", "{}", "application/json", token).status, 400) << token;
  }

  // A reload reads both files of tokens.
  WriteFile(folder / "admin_tokens", "successor\n");
  server.server().RequestReload();
  for (const grpc::Status& status : administer("operator")) EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED);
  for (const grpc::Status& status : administer("successor")) EXPECT_TRUE(status.ok()) << status.error_message();
  for (const grpc::Status& status : administer("searcher")) EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
}

TEST(AdminServiceTest, ARevokedTokenEndsAtOnceWhileACollectionLoads) {
  TemporaryFolder folder;
  WriteFile(folder / "tokens", "secret\n");
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server([&](config::Config* config) { config->auth.tokens_file = folder / "tokens"; }, std::move(owned));
  std::promise<void> begun, revoked;
  std::once_flag once;
  backend.OnLoad([&] {
    std::call_once(once, [&] {
      begun.set_value();
      revoked.get_future().wait();
    });
  });
  Publish(server.folder(), ServedDocuments(5));
  std::thread reload([&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer secret");
    v1::ReloadCollectionRequest request;
    request.set_name("corpus");
    v1::ReloadCollectionResponse response;
    const grpc::Status status = server.admin().ReloadCollection(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  });
  begun.get_future().wait();
  WriteFile(folder / "tokens", "fresh\n");
  server.server().RequestReload();
  EXPECT_EQ(HttpGet(server.http_port(), "/v1/collections", "secret").status, 401);
  EXPECT_EQ(HttpGet(server.http_port(), "/v1/collections", "fresh").status, 200);
  revoked.set_value();
  reload.join();
}

}  // namespace
}  // namespace maxsim::test
