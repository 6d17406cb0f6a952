// Tests a client of several servers. Every server must get calls, and no call may fail when one server goes away.
#include <atomic>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/call_queue.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"
#include "tests/support/values/eventually.h"

namespace maxsim::client {
namespace {

const absl::Duration kReplicaLimit = absl::FromChrono(test::kTestLimit);

class ClientReplicasTest : public testing::Test {
 protected:
  void SetUp() override {
    first_ = std::make_unique<test::FakeServer>();
    second_ = std::make_unique<test::FakeServer>();
    options_.target = absl::StrCat("ipv4:", first_->target(), ",", second_->target());
  }

  // Makes calls until each of the two servers has had a call. This can take several calls, because calls go only to
  // servers to which a connection is already established.
  static void CallUntilBothAnswer(Client& client, const test::FakeServer& a, const test::FakeServer& b) {
    const int before_a = a.num_reranks, before_b = b.num_reranks;
    const absl::Time limit = absl::Now() + kReplicaLimit;
    while ((a.num_reranks == before_a || b.num_reranks == before_b) && absl::Now() < limit) {
      const auto response = client.Rerank(v1::RerankRequest());
      ASSERT_TRUE(response.ok()) << response.status();
    }
    ASSERT_GT(a.num_reranks, before_a);
    ASSERT_GT(b.num_reranks, before_b);
  }

  std::unique_ptr<test::FakeServer> first_, second_;
  ClientOptions options_;
};

TEST_F(ClientReplicasTest, CallsGoToAllInTurn) {
  const auto client = *Client::Create(options_);
  CallUntilBothAnswer(*client, *first_, *second_);
  const int before_first = first_->num_reranks, before_second = second_->num_reranks;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->Rerank(v1::RerankRequest()).ok());
  EXPECT_EQ(first_->num_reranks - before_first, 10);
  EXPECT_EQ(second_->num_reranks - before_second, 10);
}

TEST_F(ClientReplicasTest, OneThatGoesAwayCostsNoCallAndGetsCallsAgainWhenItIsBack) {
  const auto client = *Client::Create(options_);
  CallUntilBothAnswer(*client, *first_, *second_);
  const int port = first_->port();
  first_.reset();
  const int before = second_->num_reranks;
  for (int i = 0; i < 50; ++i) {
    const auto response = client->Rerank(v1::RerankRequest());
    ASSERT_TRUE(response.ok()) << i << ": " << response.status();
  }
  EXPECT_EQ(second_->num_reranks - before, 50);
  EXPECT_TRUE(client->connected());
  first_ = std::make_unique<test::FakeServer>(port);
  CallUntilBothAnswer(*client, *first_, *second_);
}

TEST_F(ClientReplicasTest, OneThatWasNeverThereCostsNoCall) {
  const int port = first_->port();
  first_.reset();
  const auto client = *Client::Create(options_);
  for (int i = 0; i < 20; ++i) {
    const auto response = client->Rerank(v1::RerankRequest());
    ASSERT_TRUE(response.ok()) << i << ": " << response.status();
  }
  first_ = std::make_unique<test::FakeServer>(port);
  CallUntilBothAnswer(*client, *first_, *second_);
}

TEST_F(ClientReplicasTest, ByChoiceAllCallsGoToOne) {
  options_.load_balancing = "pick_first";
  const auto client = *Client::Create(options_);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->Rerank(v1::RerankRequest()).ok());
  EXPECT_EQ(first_->num_reranks, 20);
  EXPECT_EQ(second_->num_reranks, 0);
}

TEST_F(ClientReplicasTest, ACallQueueUsesAllToo) {
  const auto channels = MakeChannels(options_);
  ASSERT_TRUE(channels.ok()) << channels.status();
  const auto queue = MakeCallQueue(*channels, options_);
  const EncodedRequest request{v1::RerankRequest()};
  const absl::Time limit = absl::Now() + kReplicaLimit;
  CallQueue::Answer answer;
  for (uint64_t tag = 0; (first_->num_reranks < 5 || second_->num_reranks < 5) && absl::Now() < limit; ++tag) {
    queue->Start(request, tag);
    ASSERT_EQ(queue->Next(limit, answer), CallQueue::Event::kAnswer);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
  }
  EXPECT_GE(first_->num_reranks, 5);
  EXPECT_GE(second_->num_reranks, 5);
}

// If the target has one address, each channel must use one connection, and must reconnect after the server's restart.
TEST(ClientOfOneServerTest, EachChannelIsOneConnection) {
  test::FakeServer server;
  Mutex mutex;
  std::set<std::string> peers;
  server.on_rerank = [&](grpc::ServerContext& context, auto&, auto&) {
    const MutexLock lock(&mutex);
    peers.insert(context.peer());
    return grpc::Status::OK;
  };
  ClientOptions options;
  options.target = server.target();
  options.num_channels = 2;
  const auto client = *Client::Create(options);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->Rerank(v1::RerankRequest()).ok());
  EXPECT_EQ(peers.size(), 2u);
}

TEST(ClientOfOneServerTest, AServerThatComesBackIsFound) {
  auto server = std::make_unique<test::FakeServer>();
  ClientOptions options;
  options.target = server->target();
  options.retry.max_attempts = 200;
  options.retry.max_backoff = absl::Milliseconds(100);
  const auto client = *Client::Create(options);
  ASSERT_TRUE(client->Rerank(v1::RerankRequest()).ok());
  const int port = server->port();
  server.reset();
  EXPECT_EQ(client->Rerank(v1::RerankRequest(), {.max_attempts = 2}).status().code(), absl::StatusCode::kUnavailable);
  server = std::make_unique<test::FakeServer>(port);
  const auto response = client->Rerank(v1::RerankRequest());
  EXPECT_TRUE(response.ok()) << response.status();
}

}  // namespace
}  // namespace maxsim::client
