// A whole server with a fake encoder, which makes a small matrix from each text.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/service/server_fixture.h"
#include "tests/support/connections/fake_encoder.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {

// Returns the handler of a fake encoder with the dialect "tei", whose vectors have `dim` values.
inline FakeEncoder::Handler TeiHandler(int dim) {
  return [dim](const FakeCall& call) { return FakeReply{.body = AnswerList(TextsOf(call), dim)}; };
}

class TextServiceTest : public testing::Test {
 protected:
  void Start(const FakeEncoder::Handler& handler, const std::function<void(config::Config*)>& change = nullptr,
             ScalarType storage = ScalarType::kF16) {
    encoder_ = std::make_unique<FakeEncoder>(handler);
    server_ = std::make_unique<RunningServer>(
        [&](config::Config* config) {
          config->encoder.http.url = encoder_->url();
          config->encoder.http.dialect = encoder::Dialect::kTei;
          config->encoder.http.window = absl::ZeroDuration();
          if (change != nullptr) change(config);
        },
        nullptr, storage);
  }

  static v1::RerankRequest TextRequest(const std::string& text) {
    v1::RerankRequest request;
    request.set_collection("corpus");
    request.set_top_k(20);
    request.add_queries()->set_text(text);
    request.mutable_candidates()->mutable_whole_collection();
    return request;
  }

  v1::RerankResponse Answer(const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  grpc::Status StatusOf(const v1::RerankRequest& request, std::chrono::milliseconds timeout = kTestLimit) {
    v1::RerankResponse response;
    return server_->Rerank(request, &response, timeout);
  }

  std::unique_ptr<FakeEncoder> encoder_;
  std::unique_ptr<RunningServer> server_;
};

}  // namespace maxsim::test
