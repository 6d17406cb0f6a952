// Sends texts to a whole server whose encoder is missing, hangs, fails, or returns vectors of the wrong dimension.
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/service/text_fixture.h"
#include "tests/support/connections/fake_encoder.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

TEST_F(TextServiceTest, VectorsOfAnotherWidthAreRefusedByName) {
  Start(TeiHandler(16));
  for (int attempt = 0; attempt < 2; ++attempt) {  // before and after the encoder's width is known
    const grpc::Status status = StatusOf(TextRequest("a question"));
    EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr("collection corpus has dimension 32"));
    EXPECT_THAT(status.error_message(), HasSubstr("have 16"));
  }
  EXPECT_EQ(encoder_->num_calls(), 1);
}

TEST_F(TextServiceTest, AServerWithoutAnEncoderSaysSo) {
  RunningServer server;
  v1::RerankResponse response;
  const grpc::Status status = server.Rerank(TextRequest("a question"), &response);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("encoder.url"));
  v1::GetInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetInfo(&context, v1::GetInfoRequest(), &info).ok());
  EXPECT_FALSE(info.has_encoder());
}

TEST_F(TextServiceTest, AnEncoderThatHangsHoldsUpNoVectors) {
  Start([](const FakeCall&) { return FakeReply{.delay = 1h}; },
        [](config::Config* config) { config->encoder.http.timeout = absl::Hours(1); });
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    EXPECT_EQ(StatusOf(TextRequest("a question"), 3s).error_code(), grpc::DEADLINE_EXCEEDED);
    is_over = true;
  });
  EXPECT_TRUE(Eventually([&] { return is_over || !encoder_->calls().empty(); }));
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 6);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(StatusOf(MakeRequest("corpus", query, {"doc-1", "doc-2"}, 2)).ok());
  }
  waiting.join();
}

TEST_F(TextServiceTest, AnEncoderThatHangsLeavesPlacesOfTheHttpPort) {
  std::promise<void> open;
  Start(
      [opened = open.get_future().share()](const FakeCall& call) {
        opened.wait();
        return FakeReply{.body = AnswerList(TextsOf(call), kDim)};
      },
      [](config::Config* config) {
        config->encoder.http.timeout = absl::Hours(1);
        config->http.max_concurrent_requests = 4;
      });
  const auto post = [&](const json& query) {
    const json body = {{"query", query}, {"documents", {"doc-1"}}};
    return HttpPost(server_->http_port(), "/v1/rerank", body.dump(), "application/json");
  };
  std::vector<std::thread> waiting;
  for (int i = 0; i < 2; ++i) waiting.emplace_back([&] { EXPECT_EQ(post("a question").status, 200); });
  EXPECT_TRUE(encoder_->WaitForCalls(2));
  const HttpAnswer refused = post("one more");
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.retry_after, "1");
  EXPECT_THAT(refused.body, HasSubstr("http.max_concurrent_requests: 2 calls with texts are in progress"));
  EXPECT_EQ(post(json::array({json(std::vector<float>(kDim, 0.5F))})).status, 200);
  open.set_value();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(post("their places are free").status, 200);
}

TEST_F(TextServiceTest, AnEncoderThatFailsIsQuoted) {
  struct Case {
    FakeReply reply;
    grpc::StatusCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{.status = 422, .body = R"({"error": "the text is odd"})"}, grpc::INVALID_ARGUMENT, "queries[0].text: "},
      {{.status = 422, .body = R"({"error": "the text is odd"})"}, grpc::INVALID_ARGUMENT, "status 422"},
      {{.status = 500, .body = "sick"}, grpc::UNAVAILABLE, "status 500"},
      {{.body = "[[[1, 2"}, grpc::UNAVAILABLE, "encoder"},
      {{.body = "[[[1e400]]]"}, grpc::UNAVAILABLE, "encoder"},
      {{.body = AnswerList({"a"}, kDim), .is_cut_off = true}, grpc::UNAVAILABLE, "encoder"},
      {{.closes_unanswered = true}, grpc::UNAVAILABLE, "encoder"},
  };
  for (const Case& one : cases) {
    Start([reply = one.reply](const FakeCall&) { return reply; });
    const grpc::Status status = StatusOf(TextRequest("a question"));
    EXPECT_EQ(status.error_code(), one.code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(one.text));
  }
}

TEST_F(TextServiceTest, AcceptedTextsAreAnsweredWhenTheServerStops) {
  Start([](const FakeCall& call) { return FakeReply{.body = AnswerList(TextsOf(call), kDim), .delay = 500ms}; });
  grpc::Status status(grpc::UNKNOWN, "");
  std::thread waiting([&] { status = StatusOf(TextRequest("a question")); });
  ASSERT_TRUE(encoder_->WaitForCalls(1));
  EXPECT_EQ(server_->Stop(), 0);
  waiting.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(TextServiceTest, AnEncoderThatOutlastsTheGraceIsCutOff) {
  Start([](const FakeCall&) { return FakeReply{.delay = 1h}; },
        [](config::Config* config) { config->server.shutdown_grace = absl::Milliseconds(200); });
  grpc::Status status;
  std::thread waiting([&] { status = StatusOf(TextRequest("a question")); });
  ASSERT_TRUE(encoder_->WaitForCalls(1));
  server_->Stop();
  waiting.join();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
}

}  // namespace
}  // namespace maxsim::test
