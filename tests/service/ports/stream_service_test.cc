// Tests RerankStream: pipelining, backpressure, errors within a stream, and the ways in which a stream ends.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

v1::RerankRequest NumberedRequest(int number, const RandomQuery& query, const std::vector<std::string>& ids) {
  v1::RerankRequest request = MakeRequest("corpus", query, ids, 5);
  request.set_request_id(std::to_string(number));
  return request;
}

TEST(StreamServiceTest, ManyPipelinedRequestsEachGetTheirAnswerWrongOnesAmongThem) {
  RunningServer server([](config::Config* config) { config->grpc.stream_in_flight = 8; });
  constexpr int kRequests = 200;
  std::vector<RandomQuery> queries;
  for (int i = 0; i < kRequests; ++i) {
    queries.push_back(MakeQuery(TestSeed() + static_cast<uint64_t>(i), ScalarType::kF16, kDim, 1 + i % 9));
  }
  const auto document_of = [](int i) { return i % kNumDocuments; };
  grpc::ClientContext context;
  auto stream = server.stub().RerankStream(&context);
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      const auto request = NumberedRequest(i, queries[static_cast<size_t>(i)],
                                           {"doc-" + std::to_string(document_of(i)), i % 10 == 3 ? "" : "doc-1"});
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  std::set<int> answered;
  v1::RerankStreamResponse response;
  while (stream->Read(&response)) {
    const int i = std::stoi(response.request_id());
    EXPECT_TRUE(answered.insert(i).second) << "two answers to " << i;
    if (i % 10 == 3) {
      EXPECT_EQ(response.code(), grpc::INVALID_ARGUMENT);
      EXPECT_THAT(response.message(), HasSubstr("candidates.string_ids.ids[1]"));
      EXPECT_FALSE(response.has_response());
      continue;
    }
    EXPECT_EQ(response.code(), grpc::OK) << response.message();
    EXPECT_EQ(WrongAnswer(server.documents(), queries[static_cast<size_t>(i)], {document_of(i), 1}, 5,
                          response.response().results(0)),
              "");
  }
  writer.join();
  const grpc::Status end = stream->Finish();
  EXPECT_TRUE(end.ok()) << end.error_code() << ": " << end.error_message();
  EXPECT_EQ(answered.size(), static_cast<size_t>(kRequests));
}

// gRPC reports an unparseable message in the same way as the end of the stream. The server must tell the two apart.
TEST(StreamServiceTest, AMessageThatIsNoRequestIsAnsweredAndTheStreamGoesOn) {
  RunningServer server;
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, kDim, 2);
  grpc::ClientContext context;
  auto stream = server.stub().RerankStream(&context);
  for (int i = 0; i < 9; ++i) {
    v1::RerankRequest request = NumberedRequest(i, query, {"doc-1"});
    if (i % 3 == 1) request.set_request_id("\xff");  // no UTF-8
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  std::set<std::string> answered;
  int num_wrong = 0;
  v1::RerankStreamResponse response;
  while (stream->Read(&response)) {
    if (response.code() == grpc::OK) {
      answered.insert(response.request_id());
      continue;
    }
    ++num_wrong;
    EXPECT_EQ(response.code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(response.request_id(), "");
    EXPECT_THAT(response.message(), HasSubstr("is not a maxsim.v1.RerankRequest"));
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answered, (std::set<std::string>{"0", "2", "3", "5", "6", "8"}));
  EXPECT_EQ(num_wrong, 3);
  EXPECT_THAT(server.server().metrics().Expose(),
              HasSubstr("maxsim_requests_total{code=\"INVALID_ARGUMENT\",method=\"RerankStream\"} 3"));
}

// gRPC refuses the message because of its length. So the server gets no request to answer, and the stream ends.
TEST(StreamServiceTest, AMessageThatIsTooLargeEndsTheStream) {
  RunningServer server([](config::Config* config) { config->limits.max_request_bytes = 4096; });
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, kDim, 2);
  grpc::ClientContext context;
  auto stream = server.stub().RerankStream(&context);
  v1::RerankStreamResponse response;
  ASSERT_TRUE(stream->Write(NumberedRequest(1, query, {"doc-1"})));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.request_id(), "1");
  stream->Write(NumberedRequest(2, query, std::vector<std::string>(1000, "doc-1")));
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status end = stream->Finish();
  EXPECT_EQ(end.error_code(), grpc::RESOURCE_EXHAUSTED) << end.error_message();
  v1::RerankResponse next;
  EXPECT_TRUE(server.Rerank(NumberedRequest(3, query, {"doc-1"}), &next).ok()) << "the connection stays";
}

TEST(StreamServiceTest, NoMoreThanTheConfiguredRequestsAreTakenAtATime) {
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server([](config::Config* config) { config->grpc.stream_in_flight = 4; }, std::move(owned));
  backend.Close();
  grpc::ClientContext context;
  auto stream = server.stub().RerankStream(&context);
  const RandomQuery query = MakeQuery(1, ScalarType::kF16, kDim, 2);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(stream->Write(NumberedRequest(i, query, {"doc-1"})));
  stream->WritesDone();
  // Waits until the server has read four requests. It must not read a fifth one before it has answered one of them.
  const auto taken = [&] {
    const batching::SchedulerStats stats = server.server().scheduler().stats();
    return stats.queued_jobs + stats.running_jobs;
  };
  EXPECT_TRUE(Eventually([&] { return taken() >= 4; }));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(taken(), 4);
  backend.Open();
  int answers = 0;
  v1::RerankStreamResponse response;
  while (stream->Read(&response)) ++answers;
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answers, 20);
}

TEST(StreamServiceTest, ACancelledStreamFreesWhatItHadQueued) {
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server(nullptr, std::move(owned));
  backend.Close();
  {
    grpc::ClientContext context;
    auto stream = server.stub().RerankStream(&context);
    const RandomQuery query = MakeQuery(1, ScalarType::kF16, kDim, 2);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(stream->Write(NumberedRequest(i, query, {"doc-1"})));
    ASSERT_TRUE(backend.WaitForCalls(2));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return server.server().scheduler().stats().queued_jobs == 0; }));
  backend.Open();
  EXPECT_EQ(server.Stop(), 0);
}

TEST(StreamServiceTest, ADrainingServerAnswersWhatItTookAndEndsTheStream) {
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server(nullptr, std::move(owned));
  backend.Close();
  grpc::ClientContext context;
  auto stream = server.stub().RerankStream(&context);
  const RandomQuery query = MakeQuery(1, ScalarType::kF16, kDim, 2);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(NumberedRequest(i, query, {"doc-1"})));
  const auto taken = [&] {
    const batching::SchedulerStats stats = server.server().scheduler().stats();
    return stats.queued_jobs + stats.running_jobs;
  };
  ASSERT_TRUE(Eventually([&] { return taken() == 3; }));
  server.server().RequestStop("test");
  std::this_thread::sleep_for(50ms);
  backend.Open();
  int answers = 0;
  v1::RerankStreamResponse response;
  while (stream->Read(&response)) answers += response.code() == grpc::OK ? 1 : 0;
  EXPECT_EQ(answers, 3);
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(StreamServiceTest, StreamsThatComeAndGoAtOnceLeaveNothingBehind) {
  RunningServer server;
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&server, c] {
      const RandomQuery query = MakeQuery(static_cast<uint64_t>(c), ScalarType::kF16, kDim, 3);
      for (int round = 0; round < 30; ++round) {
        grpc::ClientContext context;
        auto stream = server.stub().RerankStream(&context);
        for (int i = 0; i < round % 4; ++i) stream->Write(NumberedRequest(i, query, {"doc-1", "doc-2"}));
        if (round % 3 == 0) context.TryCancel();
        stream->WritesDone();
        v1::RerankStreamResponse response;
        int answers = 0;
        while (stream->Read(&response)) ++answers;
        const grpc::Status status = stream->Finish();
        if (round % 3 != 0) {
          EXPECT_TRUE(status.ok()) << status.error_message();
          EXPECT_EQ(answers, round % 4);
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.Stop(), 0);
}

}  // namespace
}  // namespace maxsim::test
