// Tests the limit of a connection's age, and connections over a Unix socket.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;

v1::RerankRequest TwoDocuments() {
  return MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1", "doc-2"}, 5);
}

// Makes a channel that has its own connections. (By default, gRPC channels with equal arguments share connections.)
std::shared_ptr<grpc::Channel> OwnChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status RerankOver(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
  v1::RerankResponse response;
  return v1::Reranker::NewStub(channel)->Rerank(&context, TwoDocuments(), &response);
}

// Waits until the channel's connection accepts no more calls. Returns false if it still accepts calls after kTestLimit.
bool WaitForGoAway(grpc::Channel& channel) {
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + kTestLimit);
}

TEST(ConnectionServiceTest, AConnectionOfItsAgeIsLeftAndTheCallInProgressEndsWell) {
  auto owned = std::make_unique<FakeBackend>();
  FakeBackend& backend = *owned;
  RunningServer server([](config::Config* config) { config->grpc.max_connection_age = absl::Milliseconds(300); },
                       std::move(owned));
  const std::shared_ptr<grpc::Channel> channel = OwnChannel(server.grpc_address());
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
  const grpc::Status status = RerankOver(OwnChannel(server.grpc_address()));
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  backend.Open();
}

TEST(ConnectionServiceTest, CallsOneAfterAnotherLoseNothingWhenConnectionsAge) {
  RunningServer server([](config::Config* config) { config->grpc.max_connection_age = absl::Milliseconds(50); });
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  const std::shared_ptr<grpc::Channel> channel = OwnChannel(server.grpc_address());
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
    EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kTestLimit));
    EXPECT_TRUE(WaitForGoAway(*channel));
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
}

class UnixSocketTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "grpc.sock"; }

  std::unique_ptr<RunningServer> Serve() {
    return std::make_unique<RunningServer>([this](config::Config* config) { config->grpc.unix_socket = path(); });
  }

  grpc::Status RerankOverSocket() { return RerankOver(OwnChannel(absl::StrCat("unix:", path()))); }

  sockaddr_un Address() const {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }

  // Binds a socket to the path but does not listen on it, which leaves the file as a crashed process would.
  int BoundSocket() const {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address();
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  // Returns why a server does not start with this socket.
  static std::string ErrorOf(const std::string& unix_socket) {
    config::Config config = TestConfig();
    config.grpc.unix_socket = unix_socket;
    auto server = Server::Create(config);
    return std::string((server.ok() ? (*server)->Start() : server.status()).message());
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(UnixSocketTest, IsServedBesideTheAddressAndRemovedAtTheEnd) {
  auto server = Serve();
  const grpc::Status over_socket = RerankOverSocket();
  EXPECT_TRUE(over_socket.ok()) << over_socket.error_message();
  EXPECT_TRUE(RerankOver(OwnChannel(server->grpc_address())).ok());
  EXPECT_EQ(server->Stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(UnixSocketTest, OneThatNobodyListensOnIsReplaced) {
  close(BoundSocket());
  ASSERT_TRUE(std::filesystem::is_socket(path()));
  auto server = Serve();
  const grpc::Status status = RerankOverSocket();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(UnixSocketTest, OneOfAnotherServerIsLeftToIt) {
  auto first = Serve();
  EXPECT_EQ(ErrorOf(path()), absl::StrCat("grpc.unix_socket: cannot listen on ", path(), ": Address already in use"));
  const grpc::Status status = RerankOverSocket();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// The server that owns the socket accepts no connections, and its queue is full. The new server must leave the socket
// alone and not wait.
TEST_F(UnixSocketTest, OneWhoseServerHasNoTimeIsLeftToIt) {
  const int busy = BoundSocket();
  ASSERT_EQ(listen(busy, 0), 0);
  const sockaddr_un address = Address();
  std::vector<int> clients;
  do {
    clients.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (connect(clients.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ASSERT_EQ(errno, EAGAIN);
  EXPECT_THAT(ErrorOf(path()), testing::EndsWith(": Address already in use"));
  EXPECT_TRUE(std::filesystem::is_socket(path()));
  for (const int client : clients) close(client);
  close(busy);
}

TEST_F(UnixSocketTest, AFileOrNoFolderIsRefusedAndNothingIsLeft) {
  WriteFile(path(), "kept");
  EXPECT_EQ(ErrorOf(path()), absl::StrCat("grpc.unix_socket: cannot listen on ", path(), ": File exists"));
  EXPECT_EQ(ReadFile(path()), "kept");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(ErrorOf(path()), testing::EndsWith(": File exists"));
  std::filesystem::remove(path());
  EXPECT_EQ(ErrorOf(path() + "/none"),
            absl::StrCat("grpc.unix_socket: cannot listen on ", path(), "/none: No such file or directory"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace maxsim::test
