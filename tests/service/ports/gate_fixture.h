// Runs a whole server, and makes connections to its gRPC port that send exactly the frames that a test gives.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/http2_client.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {

// A TCP connection that sends only what a test tells it to.
class ScriptedConnection {
 public:
  explicit ScriptedConnection(const RunningServer& running) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const std::string target = running.grpc_address();
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = fd_ >= 0 && connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~ScriptedConnection() {
    if (fd_ >= 0) close(fd_);
  }
  ScriptedConnection(const ScriptedConnection&) = delete;
  ScriptedConnection& operator=(const ScriptedConnection&) = delete;

  bool connected() const { return connected_; }

  // Returns false once the server has closed the connection.
  bool Send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t size = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) return false;
      sent += static_cast<size_t>(size);
    }
    return true;
  }

  // Reads until the server closes the connection. Returns all bytes, or "" if the server does not close it within
  // `limit`.
  std::string ReadToEnd(std::chrono::milliseconds limit = kTestLimit) {
    std::string all;
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, 20) <= 0) continue;
      char bytes[4096];
      const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
      if (size <= 0) {
        ended_ = true;
        return all;
      }
      all.append(bytes, static_cast<size_t>(size));
    }
    return "";
  }

  bool ended() const { return ended_; }

 private:
  int fd_ = -1;
  bool connected_ = false;
  bool ended_ = false;
};

inline std::string ClientSettings() { return gate::Frame(gate::FrameType::kSettings, 0, 0, ""); }

inline std::string Begin() { return absl::StrCat(std::string(gate::kClientPreface), ClientSettings()); }

// Returns the frame that the gate sends first if calls need tokens. Its limit of streams is the one that gRPC announces
// later.
inline std::string GateSettings() { return gate::Settings(config::Config().grpc.max_concurrent_streams); }

inline std::shared_ptr<grpc::Channel> OwnChannel(const RunningServer& running) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(running.grpc_address(), grpc::InsecureChannelCredentials(), arguments);
}

inline grpc::Status RerankWith(const std::shared_ptr<grpc::Channel>& channel, const std::string& token,
                               size_t query_tokens = 1) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  v1::RerankResponse response;
  const auto query = MakeQuery(1, ScalarType::kF16, kDim, static_cast<int>(query_tokens));
  return v1::Reranker::NewStub(channel)->Rerank(&context, MakeRequest("corpus", query, {"doc-1", "doc-2"}, 5),
                                                &response);
}

inline double MetricOf(RunningServer& running, const std::string& series) {
  const std::string text = running.server().metrics().Expose();
  const size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? 0 : std::stod(text.substr(at + series.size() + 2));
}

// Waits until the metric `series` has the value. Returns false if it has not within kTestLimit.
inline bool WaitForMetric(RunningServer& running, const std::string& series, double value) {
  return Eventually([&] { return MetricOf(running, series) == value; });
}

class GateServiceTest : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(folder_ / "tokens") << "secret\nanother\n"; }

  std::unique_ptr<RunningServer> ServeWithTokens(const std::function<void(config::Config*)>& change = nullptr) {
    return std::make_unique<RunningServer>([&](config::Config* config) {
      config->auth.tokens_file = folder_ / "tokens";
      if (change) change(config);
    });
  }

  TemporaryFolder folder_;
};

}  // namespace maxsim::test
