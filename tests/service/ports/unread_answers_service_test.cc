// Tests clients that do not read their answers. The memory for unread answers must be bounded, and other clients
// served.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/grpc/messages/message_buffer.h"
#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint64_t kMi = uint64_t{1} << 20;

class UnreadAnswersTest : public testing::Test {
 protected:
  // Returns a request with many unknown ids. The answer repeats them, so it has about 1 MiB.
  static v1::RerankRequest RequestOfALargeAnswer() {
    v1::RerankRequest request = MakeRequest("corpus", MakeQuery(TestSeed(), ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
    for (int i = 0; i < 2500; ++i) {
      request.mutable_candidates()->mutable_string_ids()->add_ids("unknown-" + std::string(400, 'x') +
                                                                  std::to_string(i));
    }
    return request;
  }

  // Returns a channel whose client accepts 64 KiB of a call before it reads.
  static std::shared_ptr<grpc::Channel> NarrowChannel(const RunningServer& server) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65535);
    return grpc::CreateCustomChannel(server.grpc_address(), grpc::InsecureChannelCredentials(), arguments);
  }

  static double Metric(RunningServer& server, const std::string& name) {
    const std::string text = "\n" + server.server().metrics().Expose();
    const size_t begin = text.find("\n" + name + " ");
    EXPECT_NE(begin, std::string::npos) << name;
    return begin == std::string::npos ? -1 : std::stod(text.substr(begin + name.size() + 2));
  }
  static double Held(RunningServer& server) { return Metric(server, "maxsim_unread_answer_bytes"); }
  static double Ended(RunningServer& server) { return Metric(server, "maxsim_unread_answers_ended_total"); }

  // Returns the value of maxsim_requests_total for this method and code, or 0 if the series does not exist.
  static double Requests(RunningServer& server, const std::string& method, const std::string& code) {
    const std::string text = "\n" + server.server().metrics().Expose();
    for (const std::string& labels :
         {"code=\"" + code + "\",method=\"" + method + "\"", "method=\"" + method + "\",code=\"" + code + "\""}) {
      const std::string name = "\nmaxsim_requests_total{" + labels + "} ";
      if (const size_t begin = text.find(name); begin != std::string::npos) {
        return std::stod(text.substr(begin + name.size()));
      }
    }
    return 0;
  }

  static void ExpectServed(RunningServer& server) {
    v1::RerankResponse response;
    const grpc::Status status =
        server.Rerank(MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  static void Bound(config::Config* config) {
    config->limits.max_answer_bytes = 2 * kMi;
    config->grpc.max_unread_answer_bytes = 8 * kMi;
  }

  const v1::RerankRequest request_ = RequestOfALargeAnswer();
};

TEST_F(UnreadAnswersTest, StreamsWhoseAnswersPassTheBoundEndWithAReasonAndOthersAreServed) {
  RunningServer server(Bound);
  constexpr int kStreams = 12;
  const auto stub = v1::Reranker::NewStub(NarrowChannel(server));
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<v1::RerankRequest, v1::RerankStreamResponse>>> streams;
  for (int i = 0; i < kStreams; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(stub->RerankStream(contexts.back().get()));
    ASSERT_TRUE(streams.back()->Write(request_));
    ExpectServed(server);
  }
  EXPECT_TRUE(Eventually([&] { return Ended(server) >= kStreams - 8; }));
  EXPECT_LE(Held(server), 8.0 * kMi);
  int num_ended = 0;
  for (auto& stream : streams) {
    stream->WritesDone();
    v1::RerankStreamResponse response;
    while (stream->Read(&response)) EXPECT_EQ(response.code(), grpc::OK) << response.message();
    const grpc::Status end = stream->Finish();
    if (end.ok()) continue;
    ++num_ended;
    EXPECT_EQ(end.error_code(), grpc::RESOURCE_EXHAUSTED) << end.error_message();
    EXPECT_THAT(end.error_message(), HasSubstr("(grpc.max_unread_answer_bytes)"));
  }
  EXPECT_EQ(num_ended, Ended(server));
  EXPECT_TRUE(Eventually([&] { return Held(server) == 0; })) << Held(server);
  // Each stream had one request.
  EXPECT_TRUE(Eventually([&] { return Requests(server, "RerankStream", "RESOURCE_EXHAUSTED") == num_ended; }));
  EXPECT_TRUE(Eventually([&] { return Requests(server, "RerankStream", "OK") == kStreams - num_ended; }));
}

TEST_F(UnreadAnswersTest, AStreamIsNotReadWhileItsOwnAnswersAreNot) {
  RunningServer server([](config::Config* config) { config->grpc.max_unread_answer_bytes = 64 * kMi; });
  grpc::ClientContext context;
  const auto stub = v1::Reranker::NewStub(NarrowChannel(server));
  auto stream = stub->RerankStream(&context);
  constexpr int kRequests = 30;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      if (!stream->Write(request_)) return;
    }
    stream->WritesDone();
  });
  EXPECT_TRUE(Eventually([&] { return Held(server) > 4.0 * kMi; }));
  std::this_thread::sleep_for(300ms);
  // The server was already computing some more answers when the unread ones exceeded the stream's share of 4 MiB.
  EXPECT_LT(Held(server), 16.0 * kMi);
  int num_read = 0;
  v1::RerankStreamResponse response;
  while (stream->Read(&response)) ++num_read;
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(num_read, kRequests) << "it goes on once they are read";
  EXPECT_TRUE(Eventually([&] { return Held(server) == 0; })) << Held(server);
}

TEST_F(UnreadAnswersTest, UnaryCallsWhoseAnswersAreNotReadAreBoundedToo) {
  RunningServer server(Bound);
  grpc::GenericStub stub(NarrowChannel(server));
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
  };
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls;
  const grpc::ByteBuffer bytes = rpc::ToBuffer(request_);
  for (int i = 0; i < 12; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    calls.push_back(stub.PrepareCall(contexts.back().get(), "/maxsim.v1.Reranker/Rerank", &queue));
    calls.back()->StartCall(nullptr);
    wait();
    calls.back()->WriteLast(bytes, grpc::WriteOptions(), nullptr);
    wait();
  }
  EXPECT_TRUE(Eventually([&] { return Ended(server) >= 4; }));
  EXPECT_LE(Held(server), 8.0 * kMi);
  ExpectServed(server);
  for (size_t i = 0; i < calls.size(); ++i) {
    contexts[i]->TryCancel();
    grpc::Status status;
    calls[i]->Finish(&status, nullptr);
    wait();
  }
  EXPECT_TRUE(Eventually([&] { return Held(server) == 0; })) << Held(server);
  EXPECT_TRUE(Eventually([&] { return Requests(server, "Rerank", "RESOURCE_EXHAUSTED") == Ended(server); }));
}

}  // namespace
}  // namespace maxsim::test
