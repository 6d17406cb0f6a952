// Tests the client over real connections, with a fake server whose errors each test chooses.
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/messages.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/client/client_fixture.h"
#include "tests/support/fake_server.h"

namespace maxsim::client {
namespace {

TEST(ClientServiceTest, RequestAndResponseArriveWhole) {
  test::FakeServer server;
  v1::RerankRequest seen;
  server.on_rerank = [&](grpc::ServerContext&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    seen = request;
    response.set_generation(7);
    response.add_results()->add_scores(0.5f);
    return grpc::Status::OK;
  };
  const auto client = Connect(server);
  v1::RerankRequest request = Request("r1");
  *request.add_queries() = MakeQuery(MakeTokens(std::vector<float>(16, 0.25f), 8));
  *request.mutable_candidates() = StringCandidates(std::vector<std::string>{"a", "b"});
  const auto response = client->Rerank(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(seen.SerializeAsString(), request.SerializeAsString());
  EXPECT_EQ(response->request_id(), "r1");
  EXPECT_EQ(response->generation(), 7);
  EXPECT_EQ(response->results(0).scores(0), 0.5f);
}

TEST(ClientServiceTest, WaitsAsLongAsTheServersRetryInfoSaysThenSucceeds) {
  test::FakeServer server;
  server.on_rerank = [&](grpc::ServerContext&, const v1::RerankRequest&, v1::RerankResponse&) {
    return server.num_reranks == 1 ? QueueFull(absl::Milliseconds(300)) : grpc::Status::OK;
  };
  const auto client = Connect(server);
  const absl::Time start = absl::Now();
  EXPECT_TRUE(client->Rerank(Request("r")).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(300));
  EXPECT_EQ(server.num_reranks, 2);
}

TEST(ClientServiceTest, AnExhaustedCallKeepsItsRetryHint) {
  test::FakeServer server;
  server.on_rerank = [](auto&, auto&, auto&) { return QueueFull(absl::Hours(2)); };
  const auto client = Connect(server);
  const auto response = client->Rerank(Request("r"), {.timeout = absl::Hours(1)});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(response.status().message(), "queue full");
  EXPECT_EQ(RetryAfter(response.status()), absl::Hours(2));
  EXPECT_EQ(server.num_reranks, 1) << "a retry could only have begun after the deadline";
}

TEST(ClientServiceTest, ThePushbackTrailerForbidsOrDelaysARetry) {
  for (const auto& [value, calls] : {std::pair<const char*, int>{"-1", 1}, {"10", 2}}) {
    test::FakeServer server;
    server.on_rerank = [&server, pushback = value](grpc::ServerContext& context, auto&, auto&) {
      if (server.num_reranks > 1) return grpc::Status::OK;
      context.AddTrailingMetadata("grpc-retry-pushback-ms", pushback);
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    };
    const auto client = Connect(server);
    EXPECT_EQ(client->Rerank(Request("r")).ok(), calls == 2);
    EXPECT_EQ(server.num_reranks, calls) << value;
  }
}

TEST(ClientServiceTest, BadInputIsNotRetried) {
  test::FakeServer server;
  server.on_rerank = [](auto&, auto&, auto&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "queries[0].tokens.dim is 3; the collection has 96");
  };
  const auto client = Connect(server);
  EXPECT_EQ(client->Rerank(Request("r")).status(),
            absl::InvalidArgumentError("queries[0].tokens.dim is 3; the collection has 96"));
  EXPECT_EQ(server.num_reranks, 1);
}

TEST(ClientServiceTest, TheServerSeesTheDeadlineAndTheClientKeepsIt) {
  test::FakeServer server;
  std::atomic<int64_t> left_ms{-1};
  server.on_rerank = [&](grpc::ServerContext& context, auto&, auto&) {
    left_ms = absl::ToInt64Milliseconds(absl::FromChrono(context.deadline()) - absl::Now());
    return WaitUntilCancelled(context);
  };
  const auto client = Connect(server);
  const absl::Time start = absl::Now();
  const auto response = client->Rerank(Request("r"), {.timeout = absl::Milliseconds(400)});
  const absl::Duration took = absl::Now() - start;
  EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(took, absl::Milliseconds(395));
  EXPECT_GT(left_ms, 0);
  EXPECT_LE(left_ms, 401);
}

// Returns a port on which no program listens. A server can use it later.
int PortOfNobody() {
  const test::FakeServer probe;
  return probe.port();
}

TEST(ClientServiceTest, RetriesReachAServerThatStartsLate) {
  const int port = PortOfNobody();
  ClientOptions options;
  options.target = "127.0.0.1:" + std::to_string(port);
  options.retry.max_attempts = 200;
  options.retry.max_backoff = absl::Milliseconds(100);
  auto client = *Client::Create(options);
  EXPECT_FALSE(client->connected());
  EXPECT_EQ(client->GetInfo({.max_attempts = 1}).status().code(), absl::StatusCode::kUnavailable);
  std::unique_ptr<test::FakeServer> server;
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(300));
    server = std::make_unique<test::FakeServer>(port);
  });
  EXPECT_TRUE(client->Rerank(Request("r")).ok());
  EXPECT_TRUE(client->connected());
  late.join();
}

TEST(ClientServiceTest, AChangeOfCollectionsWaitsForAConnection) {
  const int port = PortOfNobody();
  ClientOptions options;
  options.target = "127.0.0.1:" + std::to_string(port);
  auto client = *Client::Create(options);
  std::unique_ptr<test::FakeServer> server;
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(50));
    server = std::make_unique<test::FakeServer>(port);
  });
  EXPECT_TRUE(client->ReloadCollection({}).ok());
  late.join();
  EXPECT_EQ(server->num_admin_calls, 1);
}

TEST(ClientServiceTest, AChangeOfCollectionsGivesUpOnAServerThatIsNotThere) {
  ClientOptions options;
  options.target = "127.0.0.1:1";
  auto client = *Client::Create(options);
  EXPECT_EQ(client->ReloadCollection({}).status().code(), absl::StatusCode::kUnavailable);
  // The call ends when the connection is refused or when the time limit is reached, whichever comes first.
  EXPECT_THAT(client->ReloadCollection({}, {.timeout = absl::Milliseconds(20)}).status().code(),
              ::testing::AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded));
}

// Returns functions that make one call each, for every kind of call of a Client, with the call's name.
std::vector<std::pair<std::string, std::function<void(Client&)>>> EveryKindOfCall() {
  return {
      {"Rerank", [](Client& client) { EXPECT_TRUE(client.Rerank(Request("r")).ok()); }},
      {"RerankAsync",
       [](Client& client) {
         absl::Notification done;
         client.RerankAsync(std::make_shared<v1::RerankRequest>(Request("r")), {}, [&done](auto response) {
           EXPECT_TRUE(response.ok()) << response.status();
           done.Notify();
         });
         done.WaitForNotification();
       }},
      {"RerankStream",
       [](Client& client) {
         const auto session = client.OpenSession();
         v1::RerankStreamResponse answer;
         EXPECT_TRUE(session->Send(Request("r")).ok());
         EXPECT_TRUE(session->Receive(answer));
         session->Cancel();
       }},
      {"GetInfo", [](Client& client) { EXPECT_TRUE(client.GetInfo().ok()); }},
      {"ListCollections", [](Client& client) { EXPECT_TRUE(client.ListCollections().ok()); }},
      {"LoadCollection", [](Client& client) { EXPECT_TRUE(client.LoadCollection({}).ok()); }},
      {"ReloadCollection", [](Client& client) { EXPECT_TRUE(client.ReloadCollection({}).ok()); }},
      {"UnloadCollection", [](Client& client) { EXPECT_TRUE(client.UnloadCollection({}).ok()); }},
  };
}

TEST(ClientServiceTest, TheBearerTokenAndTheClientsNameTravelWithEveryCall) {
  for (const auto& [name, call] : EveryKindOfCall()) {
    test::FakeServer server;
    ClientOptions options;
    options.bearer_token = "s3cret";
    options.client_id = "shop";
    call(*Connect(server, options));
    EXPECT_EQ(server.metadata("authorization"), "Bearer s3cret") << name;
    EXPECT_EQ(server.metadata("x-client-id"), "shop") << name;
    options.client_key = "x-tenant";
    call(*Connect(server, options));
    EXPECT_EQ(server.metadata("x-tenant"), "shop") << name;
    EXPECT_EQ(server.metadata("x-client-id"), "") << name;
    call(*Connect(server));
    EXPECT_EQ(server.metadata("authorization"), "") << name;
    EXPECT_EQ(server.metadata("x-client-id"), "") << name;
  }
}

TEST(ClientServiceTest, MessagesBeyondGrpcsOwnFourMegabytesPass) {
  test::FakeServer server;
  server.on_rerank = [](auto&, auto&, v1::RerankResponse& response) {
    response.add_results()->add_payloads(std::string(6 << 20, 'x'));
    return grpc::Status::OK;
  };
  const auto response = Connect(server)->Rerank(Request("r"));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).payloads(0).size(), 6u << 20);

  ClientOptions options;
  options.max_message_bytes = 1 << 20;
  EXPECT_EQ(Connect(server, options)->Rerank(Request("r")).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ClientServiceTest, ChangesOfCollectionsAreTriedOnce) {
  test::FakeServer server;
  server.admin_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  const auto client = Connect(server);
  v1::LoadCollectionRequest load;
  load.set_name("c");
  EXPECT_EQ(client->LoadCollection(load).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->ReloadCollection({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->UnloadCollection({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.num_admin_calls, 3);
  EXPECT_EQ(client->ListCollections().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.num_admin_calls, 3 + client->options().retry.max_attempts);
}

TEST(ClientServiceTest, ManyThreadsShareAClientOverSeveralConnections) {
  test::FakeServer server;
  Mutex mutex;
  std::set<std::string> peers;
  server.on_rerank = [&](grpc::ServerContext& context, auto&, auto&) {
    MutexLock lock(&mutex);
    peers.insert(context.peer());
    return grpc::Status::OK;
  };
  ClientOptions options;
  options.num_channels = 3;
  const auto client = Connect(server, options);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string id = std::to_string(t) + "-" + std::to_string(i);
        const auto response = client->Rerank(Request(id));
        if (response.ok() && response->request_id() == id) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
  EXPECT_EQ(peers.size(), 3);
}

}  // namespace
}  // namespace maxsim::client
