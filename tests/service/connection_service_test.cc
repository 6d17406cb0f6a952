// How long a connection lasts.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "tests/service/server_fixture.h"
#include "tests/unit/store/fake_backend.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;

// Far above what a busy machine takes.
constexpr std::chrono::seconds kLong = 60s;

v1::RerankRequest TwoDocuments() {
  return MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1", "doc-2"}, 5);
}

// Its connections are its own: channels with the same arguments share theirs.
std::shared_ptr<grpc::Channel> OwnChannel(const RunningServer& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server.grpc_address(), grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status RerankOver(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLong);
  v1::RerankResponse response;
  return v1::Reranker::NewStub(channel)->Rerank(&context, TwoDocuments(), &response);
}

// Waits until the connection that the channel has takes no more calls; false when it still does after kLong.
bool WaitForGoAway(grpc::Channel& channel) {
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + kLong);
}

TEST(ConnectionServiceTest, AConnectionOfItsAgeIsLeftAndTheCallInProgressEndsWell) {
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server([](config::Config* config) { config->grpc.max_connection_age = absl::Milliseconds(300); },
                       std::move(owned));
  const std::shared_ptr<grpc::Channel> channel = OwnChannel(server);
  const size_t before = backend.calls().size();
  backend.Close();
  std::future<grpc::Status> held = std::async(std::launch::async, RerankOver, channel);
  ASSERT_TRUE(backend.WaitForCalls(before + 1));
  EXPECT_TRUE(WaitForGoAway(*channel));
  EXPECT_EQ(held.wait_for(0s), std::future_status::timeout) << "the call has been cut off";
  backend.Open();
  const grpc::Status status = held.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(RerankOver(channel).ok()) << "no new connection";
}

TEST(ConnectionServiceTest, ACallThatOutlastsTheGraceIsCutOff) {
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server(
      [](config::Config* config) {
        config->grpc.max_connection_age = absl::Milliseconds(100);
        config->grpc.max_connection_age_grace = absl::Milliseconds(100);
      },
      std::move(owned));
  backend.Close();
  const grpc::Status status = RerankOver(OwnChannel(server));
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  backend.Open();
}

TEST(ConnectionServiceTest, CallsOneAfterAnotherLoseNothingWhenConnectionsAge) {
  RunningServer server([](config::Config* config) { config->grpc.max_connection_age = absl::Milliseconds(50); });
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  const std::shared_ptr<grpc::Channel> channel = OwnChannel(server);
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      while (!stop) {
        const grpc::Status status = RerankOver(channel);
        if (status.ok()) continue;
        ++failed;
        ADD_FAILURE() << status.error_code() << ' ' << status.error_message();
      }
    });
  }
  for (int age = 0; age < 10; ++age) {
    EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kLong));
    EXPECT_TRUE(WaitForGoAway(*channel));
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace maxsim::test
