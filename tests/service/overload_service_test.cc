// Requests that end otherwise than with an answer: cancelled, expired, refused, or failed with the device.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/service/server_fixture.h"
#include "tests/unit/store/fake_backend.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

v1::RerankRequest SmallRequest() {
  return MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1", "doc-2"}, 5);
}

template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

// A server whose backend holds every call until it is opened.
class OverloadServiceTest : public testing::Test {
 protected:
  void Serve(const std::function<void(config::Config*)>& change = nullptr) {
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    server_ = std::make_unique<RunningServer>(
        [&](config::Config* config) {
          config->engine.num_lanes = 1;
          if (change) change(config);
        },
        std::move(backend));
    backend_->Close();
  }

  // Sends a request that will hold the only lane.
  std::thread HoldLane() {
    const size_t before = backend_->calls().size();
    std::thread holder([this] {
      v1::RerankResponse response;
      held_ = server_->Rerank(SmallRequest(), &response);
    });
    EXPECT_TRUE(backend_->WaitForCalls(before + 1));
    return holder;
  }

  std::string Metric(const std::string& series) const {
    const std::string text = server_->server().metrics().Expose();
    const size_t begin = text.find("\n" + series + " ");
    if (begin == std::string::npos) return "";
    const size_t value = begin + series.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }

  FakeBackend* backend_ = nullptr;
  std::unique_ptr<RunningServer> server_;
  grpc::Status held_;
};

TEST_F(OverloadServiceTest, ACancelledRequestLeavesTheQueueUnscored) {
  Serve();
  std::thread holder = HoldLane();
  grpc::ClientContext context;
  std::thread cancelled([&] {
    v1::RerankResponse response;
    EXPECT_EQ(server_->stub().Rerank(&context, SmallRequest(), &response).error_code(), grpc::CANCELLED);
  });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));
  context.TryCancel();
  cancelled.join();
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 0; }));
  const size_t calls = backend_->calls().size();
  backend_->Open();
  holder.join();
  EXPECT_TRUE(held_.ok());
  EXPECT_EQ(backend_->calls().size(), calls) << "the cancelled request was scored";
  EXPECT_EQ(Metric("maxsim_rejections_total{reason=\"cancelled\"}"), "1");
}

TEST_F(OverloadServiceTest, AnExpiredRequestIsAnsweredInTimeAndCounted) {
  Serve();
  std::thread holder = HoldLane();
  v1::RerankResponse response;
  EXPECT_EQ(server_->Rerank(SmallRequest(), &response, 50ms).error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(
      Eventually([&] { return Metric("maxsim_requests_total{code=\"DEADLINE_EXCEEDED\",method=\"Rerank\"}") == "1"; }));
  backend_->Open();
  holder.join();
  EXPECT_TRUE(held_.ok());
}

TEST_F(OverloadServiceTest, AFullQueueRefusesWithAHintWhenToComeBack) {
  Serve([](config::Config* config) { config->batching.max_queue_jobs = 1; });
  std::thread holder = HoldLane();
  std::thread waiting([&] {
    v1::RerankResponse response;
    EXPECT_TRUE(server_->Rerank(SmallRequest(), &response).ok());
  });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));

  grpc::ClientContext context;
  v1::RerankResponse response;
  const grpc::Status status = server_->stub().Rerank(&context, SmallRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("queue is full"));
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_GE(std::stoi(std::string(pushback->second.data(), pushback->second.size())), 1);

  const HttpAnswer http =
      HttpPost(server_->http_port(), "/v1/rerank",
               R"({"model":"corpus","documents":["doc-1"],"query":{"dtype":"f32","shape":[1,32],"data":")" +
                   std::string(170, 'A') + "A=\"}}",
               "application/json");
  EXPECT_EQ(http.status, 429) << http.body;
  EXPECT_FALSE(http.retry_after.empty());

  grpc::ClientContext stream_context;
  auto stream = server_->stub().RerankStream(&stream_context);
  stream->Write(SmallRequest());
  stream->WritesDone();
  v1::RerankStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_GE(answer.retry_after_ms(), 1u);
  EXPECT_TRUE(stream->Finish().ok());

  backend_->Open();
  holder.join();
  waiting.join();
  EXPECT_EQ(Metric("maxsim_rejections_total{reason=\"queue_full\"}"), "3");
}

TEST_F(OverloadServiceTest, ALostDeviceEndsTheServerWithAnErrorAndNoAnswers) {
  Serve();
  backend_->Open();
  v1::RerankResponse response;
  ASSERT_TRUE(server_->Rerank(SmallRequest(), &response).ok());
  backend_->SetHealth(absl::UnavailableError("ECC error"));
  EXPECT_TRUE(Eventually([&] { return !server_->server().Readiness().ok(); }));
  const grpc::Status status = server_->Rerank(SmallRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(server_->Wait(), Server::kExitDeviceLost);
}

TEST_F(OverloadServiceTest, AStopAnswersWhatWasAcceptedAndRefusesTheRest) {
  Serve();
  std::thread holder = HoldLane();
  std::thread waiting([&] {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(SmallRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));
  server_->server().RequestStop("test");
  EXPECT_TRUE(Eventually([&] {
    v1::RerankResponse response;
    return server_->Rerank(SmallRequest(), &response, 20ms).error_code() == grpc::UNAVAILABLE;
  }));
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").status, 503);
  EXPECT_EQ(HttpGet(server_->http_port(), "/livez").status, 200);
  backend_->Open();
  holder.join();
  waiting.join();
  EXPECT_TRUE(held_.ok()) << held_.error_message();
  EXPECT_EQ(server_->Wait(), 0);
}

TEST_F(OverloadServiceTest, WhatIsNotDoneWhenTheGraceEndsFails) {
  Serve([](config::Config* config) { config->server.shutdown_grace = absl::Milliseconds(200); });
  std::thread holder = HoldLane();
  server_->server().RequestStop("test");
  std::this_thread::sleep_for(400ms);
  backend_->Open();
  holder.join();
  EXPECT_FALSE(held_.ok());
  EXPECT_EQ(server_->Wait(), 0);
}

TEST_F(OverloadServiceTest, TheDelayKeepsServingWhileNotReady) {
  Serve([](config::Config* config) { config->server.shutdown_delay = absl::Seconds(1); });
  backend_->Open();
  server_->server().RequestStop("test");
  EXPECT_TRUE(Eventually([&] { return HttpGet(server_->http_port(), "/readyz").status == 503; }));
  EXPECT_EQ(HealthOf(server_->channel(), ""), Health::kNotServing);
  EXPECT_EQ(HealthOf(server_->channel(), "maxsim.v1.Reranker"), Health::kNotServing);
  v1::RerankResponse response;
  const grpc::Status status = server_->Rerank(SmallRequest(), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(server_->Wait(), 0);
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").status, -1);
}

}  // namespace
}  // namespace maxsim::test
