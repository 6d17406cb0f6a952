// Tests requests that end without a result, because they are cancelled, expire, are refused, or the device fails.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Returns the body of an HTTP request that is about as small as SmallRequest().
std::string SmallBody() {
  return R"({"model":"corpus","documents":["doc-1"],"query":{"dtype":"f32","shape":[1,32],"data":")" +
         std::string(170, 'A') + "A=\"}}";
}

// Runs a server whose backend holds every call until the test opens it.
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

  // Sends a request that occupies the only lane until the test opens the backend.
  std::thread HoldLane() {
    const size_t before = backend_->calls().size();
    std::thread holder([this] {
      v1::RerankResponse response;
      held_ = server_->Rerank(SmallRequest(), &response);
    });
    EXPECT_TRUE(backend_->WaitForCalls(before + 1));
    return holder;
  }

  HttpAnswer Post() const { return HttpPost(server_->http_port(), "/v1/rerank", SmallBody(), "application/json"); }

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
  // Doubles the timeout until the server receives a request before the deadline of the request, which takes longer on a
  // busy machine.
  std::chrono::milliseconds timeout = 50ms;
  EXPECT_TRUE(Eventually([&] {
    v1::RerankResponse response;
    EXPECT_EQ(server_->Rerank(SmallRequest(), &response, timeout *= 2).error_code(), grpc::DEADLINE_EXCEEDED);
    return Metric("maxsim_rejections_total{reason=\"deadline\"}") != "0";
  }));
  // The first request still occupies the lane.
  EXPECT_TRUE(Eventually([&] {
    const std::string counted = Metric("maxsim_requests_total{code=\"DEADLINE_EXCEEDED\",method=\"Rerank\"}");
    return !counted.empty() && counted != "0";
  }));
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

  const HttpAnswer http = Post();
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

TEST_F(OverloadServiceTest, ClientsAreToldApartByTheirKeyOrElseByTheirAddress) {
  Serve([](config::Config* config) { config->client_key = "x-tenant"; });
  std::thread holder = HoldLane();
  std::vector<std::thread> clients;
  // The header x-tenant distinguishes clients: two requests have "shop" in it, one has "search". Two requests, one by
  // gRPC and one by HTTP, have no such header, and come from one address. Other headers must not distinguish clients.
  for (const char* name : {"shop", "shop", "search", ""}) {
    clients.emplace_back([this, name] {
      grpc::ClientContext context;
      context.AddMetadata("x-client-id", std::to_string(reinterpret_cast<uintptr_t>(&context)));
      if (*name != 0) context.AddMetadata("x-tenant", name);
      v1::RerankResponse response;
      EXPECT_TRUE(server_->stub().Rerank(&context, SmallRequest(), &response).ok());
    });
  }
  clients.emplace_back([this] { EXPECT_EQ(Post().status, 200); });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 5; }));
  EXPECT_EQ(server_->server().scheduler().stats().queued_clients, 3);
  EXPECT_EQ(Metric("maxsim_queue_clients"), "3");
  backend_->Open();
  holder.join();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Metric("maxsim_queue_clients"), "0");
}

TEST_F(OverloadServiceTest, ARequestPushedOutForAnotherClientIsToldWhenToComeBack) {
  Serve([](config::Config* config) { config->batching.max_queue_jobs = 2; });
  std::thread holder = HoldLane();
  std::vector<std::thread> flood;
  std::atomic<int> displaced{0};
  for (int i = 0; i < 2; ++i) {
    flood.emplace_back([&] {
      grpc::ClientContext context;
      v1::RerankResponse response;
      const grpc::Status status = server_->stub().Rerank(&context, SmallRequest(), &response);
      if (status.ok()) return;
      EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED) << status.error_message();
      EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
      EXPECT_THAT(status.error_details(), testing::Not(HasSubstr("queue-full"))) << "a mark for the server's own use";
      EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
      ++displaced;
    });
  }
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 2; }));
  std::thread other([&] {
    grpc::ClientContext context;
    context.AddMetadata("x-client-id", "other");
    v1::RerankResponse response;
    EXPECT_TRUE(server_->stub().Rerank(&context, SmallRequest(), &response).ok());
  });
  EXPECT_TRUE(Eventually([&] { return displaced == 1; }));
  EXPECT_EQ(Metric("maxsim_rejections_total{reason=\"displaced\"}"), "1");
  backend_->Open();
  holder.join();
  other.join();
  for (std::thread& client : flood) client.join();
  EXPECT_EQ(displaced, 1);
}

TEST_F(OverloadServiceTest, SlowHttpRequestsDoNotDelayProbes) {
  constexpr int kMax = 8;
  Serve([](config::Config* config) {
    config->http.threads = 2;
    config->http.max_concurrent_requests = kMax;
  });
  std::vector<std::thread> slow;
  for (int i = 0; i < kMax; ++i) slow.emplace_back([this] { EXPECT_EQ(Post().status, 200); });
  EXPECT_TRUE(Eventually([&] {
    const batching::SchedulerStats stats = server_->server().scheduler().stats();
    return stats.queued_jobs + stats.running_jobs == kMax;
  }));
  // These connections send nothing, or only a part of a request.
  std::vector<RawConnection> others;
  for (int i = 0; i < 100; ++i) {
    others.emplace_back(server_->http_port());
    if (i % 2 == 0) others.back().Send("POST /v1/rerank HTTP/1.1\r\nX:");
  }
  for (const char* path : {"/livez", "/readyz", "/metrics", "/v1/collections"}) {
    EXPECT_EQ(HttpGet(server_->http_port(), path).status, 200) << path;  // all slots wait for the backend
  }

  const HttpAnswer refused = Post();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.retry_after, "1");
  EXPECT_THAT(refused.body, HasSubstr("http.max_concurrent_requests: the limit of 8 requests"));
  EXPECT_EQ(Metric("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"http\"}"), "1");
  EXPECT_EQ(Metric("maxsim_rejections_total{reason=\"http_full\"}"), "1");
  EXPECT_EQ(Metric("maxsim_rejections_total{reason=\"queue_full\"}"), "0") << "the queue has room";
  backend_->Open();
  for (std::thread& client : slow) client.join();
  EXPECT_EQ(Post().status, 200);
}

TEST_F(OverloadServiceTest, AnHttpClientThatHangsUpCancelsItsRequest) {
  Serve();
  std::thread holder = HoldLane();
  RawConnection client(server_->http_port());
  client.Send(absl::StrCat("POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Length: ", SmallBody().size(), "\r\n\r\n",
                           SmallBody()));
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 0; }));
  const size_t calls = backend_->calls().size();
  backend_->Open();
  holder.join();
  EXPECT_EQ(backend_->calls().size(), calls) << "the cancelled request was scored";
  EXPECT_EQ(Metric("maxsim_rejections_total{reason=\"cancelled\"}"), "1");
}

TEST_F(OverloadServiceTest, HttpRequestsHaveTheConfiguredDeadline) {
  Serve([](config::Config* config) { config->http.request_timeout = absl::Milliseconds(50); });
  std::thread holder = HoldLane();
  EXPECT_EQ(Post().status, 504);
  backend_->Open();
  holder.join();
}

TEST_F(OverloadServiceTest, AnHttpTimeoutOfZeroIsNone) {
  Serve([](config::Config* config) { config->http.request_timeout = absl::ZeroDuration(); });
  std::thread holder = HoldLane();
  std::thread waiting([this] { EXPECT_EQ(Post().status, 200); });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));
  std::this_thread::sleep_for(50ms);
  backend_->Open();
  holder.join();
  waiting.join();
}

TEST_F(OverloadServiceTest, RequestsThatHoldMuchMemoryAreRefusedWhileOthersWait) {
  Serve([](config::Config* config) { config->batching.max_queue_bytes = 1 << 20; });
  std::thread holder = HoldLane();
  std::thread waiting([&] {
    v1::RerankResponse response;
    EXPECT_TRUE(server_->Rerank(SmallRequest(), &response).ok());
  });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));
  // Only one id is known, so the server scores a single document. But the answer repeats every unknown id, so the
  // waiting request holds all these strings.
  v1::RerankRequest large = SmallRequest();
  for (int i = 0; i < 30'000; ++i) large.mutable_candidates()->mutable_string_ids()->add_ids(std::to_string(i));
  grpc::ClientContext context;
  v1::RerankResponse response;
  const grpc::Status status = server_->stub().Rerank(&context, large, &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("bytes wait, of at most 1048576 (batching.max_queue_bytes)"));
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  EXPECT_GT(std::stoi(Metric("maxsim_queue_bytes")), 0);
  std::thread small([&] {
    v1::RerankResponse answer;
    EXPECT_TRUE(server_->Rerank(SmallRequest(), &answer).ok()) << "a small one has room";
  });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 2; }));
  backend_->Open();
  holder.join();
  waiting.join();
  small.join();
  EXPECT_EQ(Metric("maxsim_queue_bytes"), "0");
  EXPECT_TRUE(server_->Rerank(large, &response).ok()) << "an empty queue takes it";
}

TEST_F(OverloadServiceTest, ALostDeviceEndsTheServerWithAnErrorAndNoAnswers) {
  Serve();
  backend_->Open();
  v1::RerankResponse response;
  ASSERT_TRUE(server_->Rerank(SmallRequest(), &response).ok());
  backend_->SetHealth(absl::UnavailableError("ECC error"));
  EXPECT_TRUE(Eventually([&] { return !server_->server().Readiness().ok(); }));
  const grpc::Status status = server_->Rerank(SmallRequest(), &response);
  // The server is stopping at this moment. gRPC ends a call that arrives while it closes with CANCELLED.
  EXPECT_TRUE(status.error_code() == grpc::UNAVAILABLE || status.error_code() == grpc::CANCELLED)
      << status.error_code() << ": " << status.error_message();
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
    return server_->Rerank(SmallRequest(), &response, 200ms).error_code() == grpc::UNAVAILABLE;
  }));
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").status, 503);
  EXPECT_EQ(HttpGet(server_->http_port(), "/livez").status, 200);
  backend_->Open();
  holder.join();
  waiting.join();
  EXPECT_TRUE(held_.ok()) << held_.error_message();
  EXPECT_EQ(server_->Wait(), 0);
}

TEST_F(OverloadServiceTest, WhatWaitsWhenTheGraceEndsFailsAndTheCallThatRunsIsFinished) {
  Serve([](config::Config* config) { config->server.shutdown_grace = absl::Milliseconds(200); });
  std::thread holder = HoldLane();
  grpc::Status failed;
  std::thread waiting([&] {
    v1::RerankResponse response;
    failed = server_->Rerank(SmallRequest(), &response);
  });
  EXPECT_TRUE(Eventually([&] { return server_->server().scheduler().stats().queued_jobs == 1; }));
  server_->server().RequestStop("test");
  waiting.join();  // although the first request still occupies the lane
  EXPECT_EQ(failed.error_code(), grpc::UNAVAILABLE) << failed.error_message();
  EXPECT_EQ(failed.error_message(), "the server is shutting down");
  backend_->Open();
  holder.join();
  EXPECT_TRUE(held_.ok()) << held_.error_message();
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
