// Tests RerankStream over gRPC. A fake service gives the answers that each test chooses.
#include "server/grpc/rerank_stream.h"

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guard.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/grpc/grpc_reranker.h"
#include "server/observability/metrics.h"
#include "server/service/call/call_record.h"
#include "server/service/tenant_gate/tenant_questions.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/connections/call_order.h"

namespace maxsim::rpc {
namespace {

using testing::HasSubstr;

class FakeReranker : public service::RerankApi {
 public:
  using Done = service::Done<v1::RerankResponse>;

  explicit FakeReranker(Metrics* metrics) : metrics_(metrics) {}

  void Rerank(v1::RerankRequest&& request, service::CallContext&& context, Done&& done) override {
    test::CallOrder::Observe();
    on_rerank(std::move(request), context, std::move(done));
  }
  absl::Status ChooseCollection(const service::Caller&, v1::RerankRequest*) const override { return absl::OkStatus(); }
  void CountUnread(std::string_view method, absl::Time, const absl::Status& status) override {
    metrics_->CountRequest(method, status.code(), absl::ZeroDuration());
  }
  const service::RequestLimits& limits() const override { return limits_; }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return nullptr; }

  // Records the call as a service does, and answers it.
  void Answer(service::CallContext& context, Done& done, const absl::StatusOr<v1::RerankResponse>& response) const {
    service::Record(context, metrics_, response.status());
    done(response);
  }

  std::function<void(v1::RerankRequest, service::CallContext&, Done)> on_rerank;

 private:
  Metrics* const metrics_;
  const service::RequestLimits limits_;
};

class RerankStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    test::CallOrder::Begin();
    ASSERT_TRUE(authenticator_->Load().ok());
    GrpcReranker::Dependencies dependencies;
    dependencies.rerank = &gate_;
    dependencies.authenticator = authenticator_.get();
    dependencies.metrics = &metrics_;
    dependencies.calls = &calls_;
    reranker_ = std::make_unique<GrpcReranker>(dependencies);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(reranker_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Reranker::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }

  // Sends one request; returns how the stream ends.
  grpc::Status SendOne(v1::RerankStreamResponse* response) {
    grpc::ClientContext context;
    const auto stream = stub_->RerankStream(&context);
    v1::RerankRequest request;
    request.set_request_id("r");
    stream->Write(request);
    stream->WritesDone();
    stream->Read(response);
    return stream->Finish();
  }

  Metrics metrics_;
  FakeReranker service_{&metrics_};
  service::TenantQuestions gate_{&service_, /*explain=*/nullptr, &metrics_, service::ErrorSource::kServer};
  std::unique_ptr<service::Authenticator> authenticator_ =
      std::make_unique<service::Authenticator>(service::TokenFiles());
  service::CallTracker calls_;
  std::unique_ptr<GrpcReranker> reranker_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Reranker::Stub> stub_;
};

TEST_F(RerankStreamTest, AnAnswerIsCountedOnce) {
  service_.on_rerank = [this](const v1::RerankRequest&, service::CallContext& context, FakeReranker::Done done) {
    service_.Answer(context, done, v1::RerankResponse());
  };
  v1::RerankStreamResponse response;
  EXPECT_TRUE(SendOne(&response).ok());
  EXPECT_EQ(response.request_id(), "r");
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_requests_total{code=\"OK\",method=\"RerankStream\"} 1\n"));
}

TEST_F(RerankStreamTest, ARequestThatTheServiceHasNoMemoryForIsCountedAndEndsTheStream) {
  service_.on_rerank = [](const v1::RerankRequest&, service::CallContext&, const FakeReranker::Done&) {
    throw std::bad_alloc();
  };
  v1::RerankStreamResponse response;
  EXPECT_EQ(SendOne(&response).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"RerankStream\"} 1\n"));
}

TEST_F(RerankStreamTest, ARequestThatTheServiceLosesIsCountedAndEndsTheStream) {
  service_.on_rerank = [](const v1::RerankRequest&, service::CallContext&, const FakeReranker::Done&) {};
  v1::RerankStreamResponse response;
  EXPECT_EQ(SendOne(&response).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"RerankStream\"} 1\n"));
}

TEST_F(RerankStreamTest, ARequestThatIsAnsweredBeforeTheServiceThrowsIsCountedOnce) {
  service_.on_rerank = [this](const v1::RerankRequest&, service::CallContext& context, FakeReranker::Done done) {
    service_.Answer(context, done, NoMemory());
    throw std::bad_alloc();
  };
  v1::RerankStreamResponse response;
  SendOne(&response);
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"RerankStream\"} 1\n"));
}

// Gives a token to a tenant that has one collection.
class TenantStreamTest : public RerankStreamTest {
 protected:
  void SetUp() override {
    test::WriteFile(folder_ / "tokens", "acme {\"tenant\": \"acme\", \"collections\": [\"docs\"]}\n");
    authenticator_ = std::make_unique<service::Authenticator>(service::TokenFiles{.search = folder_ / "tokens"});
    RerankStreamTest::SetUp();
  }

  test::TemporaryFolder folder_;
};

TEST_F(TenantStreamTest, EachRequestIsOfTheTenantOfTheToken) {
  service_.on_rerank = [this](const v1::RerankRequest& request, service::CallContext& context,
                              FakeReranker::Done done) {
    EXPECT_EQ(request.collection(), "docs");
    ASSERT_NE(context.caller.tenant(), nullptr);
    EXPECT_EQ(context.caller.tenant()->name(), "acme");
    service_.Answer(context, done, v1::RerankResponse());
  };
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer acme");
  const auto stream = stub_->RerankStream(&context);
  v1::RerankRequest request;
  v1::RerankStreamResponse response;
  for (const auto& [collection, code] :
       {std::pair("docs", grpc::StatusCode::OK), {"secret", grpc::StatusCode::NOT_FOUND}}) {
    request.set_collection(collection);
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.code(), code) << collection;
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace maxsim::rpc
