// Tests both kinds of CallQueue over real connections, with a fake server whose errors each test chooses.
#include "client/call_queue.h"

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/grpc_support.h"
#include "client/messages.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"
#include "tests/support/values/eventually.h"

namespace maxsim::client {
namespace {

using testing::HasSubstr;

v1::RerankRequest Request(uint32_t top_k) {
  v1::RerankRequest request;
  request.set_collection("c");
  request.set_top_k(top_k);
  return request;
}

class CallQueueTest : public testing::TestWithParam<bool> {
 protected:
  bool sessions() const { return GetParam(); }

  std::unique_ptr<CallQueue> Connect(int num_channels = 1,
                                     absl::Duration timeout = absl::FromChrono(test::kTestLimit)) {
    ClientOptions options;
    options.target = server_.target();
    options.num_channels = num_channels;
    options.timeout = timeout;
    options.bearer_token = "secret";
    options.client_id = "shop";
    const auto channels = MakeChannels(options);
    EXPECT_TRUE(channels.ok()) << channels.status();
    return sessions() ? MakeSessionQueue(*channels, options) : MakeCallQueue(*channels, options);
  }

  // Takes `count` answers. Returns their statuses by tag.
  static std::map<uint64_t, absl::Status> Take(CallQueue& queue, size_t count) {
    std::map<uint64_t, absl::Status> statuses;
    CallQueue::Answer answer;
    while (statuses.size() < count &&
           queue.Next(absl::Now() + absl::FromChrono(test::kTestLimit), answer) == CallQueue::Event::kAnswer) {
      EXPECT_TRUE(statuses.emplace(answer.tag, answer.status).second) << "two answers to " << answer.tag;
    }
    EXPECT_EQ(statuses.size(), count);
    return statuses;
  }

  test::FakeServer server_;
};

TEST_P(CallQueueTest, EveryRequestGetsItsOwnAnswer) {
  server_.on_rerank = [](grpc::ServerContext& context, const v1::RerankRequest& request, v1::RerankResponse& response) {
    for (const auto& [key, value] : {std::pair("authorization", "Bearer secret"), std::pair("x-client-id", "shop")}) {
      const auto sent = context.client_metadata().find(key);
      if (sent == context.client_metadata().end() || sent->second != value) {
        return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, absl::StrCat("no ", key));
      }
    }
    response.set_generation(request.top_k());
    return grpc::Status::OK;
  };
  const auto queue = Connect(3);
  constexpr uint64_t kCalls = 300;
  for (uint64_t i = 0; i < kCalls; ++i) queue->Start(EncodedRequest(Request(static_cast<uint32_t>(1000 + i))), i);
  std::set<uint64_t> seen;
  CallQueue::Answer answer;
  while (seen.size() < kCalls) {
    ASSERT_EQ(queue->Next(absl::Now() + absl::FromChrono(test::kTestLimit), answer), CallQueue::Event::kAnswer);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.response.generation(), 1000 + answer.tag);
    EXPECT_TRUE(seen.insert(answer.tag).second);
  }
  EXPECT_EQ(server_.num_reranks, static_cast<int>(kCalls));
  EXPECT_EQ(queue->Next(absl::Now() + absl::Milliseconds(20), answer), CallQueue::Event::kTimeout);
  queue->Close();
  EXPECT_EQ(queue->Next(absl::InfiniteFuture(), answer), CallQueue::Event::kClosed);
}

TEST_P(CallQueueTest, OneThreadStartsWhileAnotherTakesTheAnswers) {
  const auto queue = Connect(2);
  const EncodedRequest request(Request(1));
  constexpr uint64_t kCalls = 500;
  std::thread starter([&] {
    for (uint64_t i = 0; i < kCalls; ++i) queue->Start(request, i);
  });
  for (const auto& [tag, status] : Take(*queue, kCalls)) EXPECT_TRUE(status.ok()) << tag << ": " << status;
  starter.join();
}

TEST_P(CallQueueTest, ErrorsComeWithTheServersCodeMessageAndHint) {
  server_.on_rerank = [](grpc::ServerContext&, const v1::RerankRequest& request, v1::RerankResponse&) {
    if (request.top_k() == 1) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "queries is empty");
    if (request.top_k() == 2) {
      absl::Status full = absl::ResourceExhaustedError("queue full");
      SetRetryAfter(absl::Milliseconds(25), full);
      return ToGrpcStatus(full);
    }
    return grpc::Status::OK;
  };
  const auto queue = Connect();
  for (uint32_t i = 1; i <= 3; ++i) queue->Start(EncodedRequest(Request(i)), i);
  const std::map<uint64_t, absl::Status> statuses = Take(*queue, 3);
  EXPECT_EQ(statuses.at(1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(statuses.at(1).message(), "queries is empty");
  EXPECT_EQ(statuses.at(2).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(statuses.at(2)), absl::Milliseconds(25));
  EXPECT_TRUE(statuses.at(3).ok());
  EXPECT_EQ(server_.num_reranks, 3) << "nothing is tried again";
}

TEST_P(CallQueueTest, WhatIsUnderWayAtTheEndIsAnsweredToo) {
  server_.on_rerank = [](grpc::ServerContext& context, const v1::RerankRequest&, v1::RerankResponse&) {
    test::Eventually([&] { return context.IsCancelled(); });
    return grpc::Status::CANCELLED;
  };
  const auto queue = Connect(1, absl::Milliseconds(400));
  for (uint64_t i = 0; i < 5; ++i) queue->Start(EncodedRequest(Request(1)), i);
  absl::SleepFor(absl::Milliseconds(100));
  queue->Close();
  for (const auto& [tag, status] : Take(*queue, 5)) {
    EXPECT_EQ(status.code(), sessions() ? absl::StatusCode::kCancelled : absl::StatusCode::kDeadlineExceeded) << tag;
  }
  CallQueue::Answer answer;
  EXPECT_EQ(queue->Next(absl::InfiniteFuture(), answer), CallQueue::Event::kClosed);
}

TEST_P(CallQueueTest, AServerThatIsNotThereIsUnavailable) {
  ClientOptions options;
  options.target = "127.0.0.1:1";
  const auto channels = MakeChannels(options);
  ASSERT_TRUE(channels.ok());
  const auto queue = sessions() ? MakeSessionQueue(*channels, options) : MakeCallQueue(*channels, options);
  for (uint64_t round = 0; round < 2; ++round) {  // in the second round, a session queue must open a new session
    for (uint64_t i = 0; i < 3; ++i) queue->Start(EncodedRequest(Request(1)), i);
    for (const auto& [tag, status] : Take(*queue, 3)) EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << tag;
  }
}

TEST_P(CallQueueTest, AnUnusedQueueCloses) {
  Connect();
  const auto queue = Connect();
  queue->Close();
  CallQueue::Answer answer;
  EXPECT_EQ(queue->Next(absl::InfiniteFuture(), answer), CallQueue::Event::kClosed);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CallQueueTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Sessions" : "Calls"; });

// A service that answers RerankStream calls with the function `answer`.
class OddStreams : public v1::Reranker::Service {
 public:
  using Answer =
      std::function<grpc::Status(int stream, grpc::ServerReaderWriter<v1::RerankStreamResponse, v1::RerankRequest>*)>;
  explicit OddStreams(Answer answer) : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OddStreams() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::unique_ptr<CallQueue> Connect() const {
    ClientOptions options;
    options.target = absl::StrCat("127.0.0.1:", port_);
    return MakeSessionQueue(*MakeChannels(options), options);
  }

  grpc::Status RerankStream(grpc::ServerContext*,
                            grpc::ServerReaderWriter<v1::RerankStreamResponse, v1::RerankRequest>* stream) override {
    return answer_(num_streams_++, stream);
  }

 private:
  const Answer answer_;
  std::atomic<int> num_streams_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status Ask(CallQueue& queue, uint64_t tag) {
  queue.Start(EncodedRequest(Request(1)), tag);
  CallQueue::Answer answer;
  if (queue.Next(absl::Now() + absl::FromChrono(test::kTestLimit), answer) != CallQueue::Event::kAnswer)
    return absl::UnknownError("none");
  EXPECT_EQ(answer.tag, tag);
  return answer.status;
}

TEST(SessionQueueTest, AStreamThatEndsFailsWhatItHasAndTheNextRequestOpensAnother) {
  const OddStreams server([](int stream, auto* calls) {
    v1::RerankRequest request;
    calls->Read(&request);
    if (stream == 0) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    if (stream == 1) return grpc::Status::OK;
    v1::RerankStreamResponse answer;
    answer.set_request_id(request.request_id());
    calls->Write(answer);
    return grpc::Status::OK;
  });
  const auto queue = server.Connect();
  const absl::Status draining = Ask(*queue, 7);
  EXPECT_EQ(draining.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(draining.message(), "draining");
  const absl::Status ended = Ask(*queue, 8);
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("before the answer"));
  EXPECT_TRUE(Ask(*queue, 9).ok());
}

TEST(SessionQueueTest, AnAnswerToNoRequestEndsTheStream) {
  for (const char* id : {"12345", "", "x"}) {
    const OddStreams server([id](int, auto* calls) {
      v1::RerankRequest request;
      calls->Read(&request);
      v1::RerankStreamResponse answer;
      answer.set_request_id(id);
      calls->Write(answer);
      while (calls->Read(&request)) {
      }
      return grpc::Status::OK;
    });
    const auto queue = server.Connect();
    EXPECT_EQ(Ask(*queue, 0).code(), absl::StatusCode::kCancelled) << id;
  }
}

TEST(EncodedRequestTest, HoldsTheMessageAndTakesAnId) {
  v1::RerankRequest request = Request(9);
  *request.mutable_candidates() = StringCandidates(std::vector<std::string>(3000, "an id of some length"));
  const EncodedRequest encoded(request);
  EXPECT_EQ(encoded.size_bytes(), request.ByteSizeLong());
  v1::RerankRequest read;
  grpc::ByteBuffer buffer = encoded.Buffer();
  ASSERT_TRUE(ParseMessage(buffer, read));
  EXPECT_EQ(read.SerializeAsString(), request.SerializeAsString());
  for (const size_t length : {size_t{1}, size_t{127}, size_t{128}, size_t{20'000}}) {
    buffer = encoded.BufferWithId(std::string(length, 'i'));
    ASSERT_TRUE(ParseMessage(buffer, read));
    EXPECT_EQ(read.request_id(), std::string(length, 'i'));
    read.clear_request_id();
    EXPECT_EQ(read.SerializeAsString(), request.SerializeAsString());
  }
  EXPECT_EQ(EncodedRequest(v1::RerankRequest()).size_bytes(), 0u);
}

}  // namespace
}  // namespace maxsim::client
