// Tests the gRPC port under clients that connect, wait, send what is not HTTP/2, or have no token.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/http2_client.h"
#include "tests/support/values/eventually.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using gate::Frame;
using gate::FrameType;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kRerankPath[] = "/maxsim.v1.Reranker/Rerank";
constexpr char kCheckPath[] = "/grpc.health.v1.Health/Check";
constexpr char kWatchPath[] = "/grpc.health.v1.Health/Watch";

// This time is far more than a busy machine takes.
constexpr std::chrono::seconds kLong = kTestLimit;

// Has a TCP connection on which nothing is sent but what a test sends.
class RawConnection {
 public:
  explicit RawConnection(const RunningServer& running) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const std::string target = running.grpc_address();
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = fd_ >= 0 && connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

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

  // Returns everything that comes until the server closes the connection, or "" where it does not within `limit`.
  std::string ReadToEnd(std::chrono::milliseconds limit = kLong) {
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

std::string ClientSettings() { return Frame(FrameType::kSettings, 0, 0, ""); }

std::string Begin() { return absl::StrCat(std::string(gate::kClientPreface), ClientSettings()); }

// Returns what the gate sends first where calls need tokens: the bound on streams that gRPC will send, too.
std::string GateSettings() { return gate::Settings(config::Config().grpc.max_concurrent_streams); }

std::shared_ptr<grpc::Channel> OwnChannel(const RunningServer& running) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(running.grpc_address(), grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status RerankWith(const std::shared_ptr<grpc::Channel>& channel, const std::string& token,
                        size_t query_tokens = 1) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLong);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  v1::RerankResponse response;
  const auto query = MakeQuery(1, ScalarType::kF16, kDim, static_cast<int>(query_tokens));
  return v1::Reranker::NewStub(channel)->Rerank(&context, MakeRequest("corpus", query, {"doc-1", "doc-2"}, 5),
                                                &response);
}

double MetricOf(RunningServer& running, const std::string& series) {
  const std::string text = running.server().metrics().Expose();
  const size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? 0 : std::stod(text.substr(at + series.size() + 2));
}

// Waits until the series has the value. Returns false after kTestLimit.
bool WaitForMetric(RunningServer& running, const std::string& series, double value) {
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

// Sets the limit of this process, which is the server's too, for as long as the object lives.
class DescriptorsLeft {
 public:
  explicit DescriptorsLeft(int num_left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);  // the lowest number that is free
    close(next);
    rlimit lowered = before_;
    lowered.rlim_cur = static_cast<rlim_t>(next) + static_cast<rlim_t>(num_left);
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~DescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Holds descriptors until it goes.
class HeldDescriptors {
 public:
  HeldDescriptors() = default;
  ~HeldDescriptors() {
    for (const int descriptor : descriptors_) close(descriptor);
  }
  HeldDescriptors(const HeldDescriptors&) = delete;
  HeldDescriptors& operator=(const HeldDescriptors&) = delete;

  // Takes every one that the process may have.
  void TakeAll() {
    for (int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC); descriptor >= 0;
         descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)) {
      descriptors_.push_back(descriptor);
    }
  }

 private:
  std::vector<int> descriptors_;
};

TEST_F(GateServiceTest, ThePortAcceptsAgainAfterDescriptorsHaveRunOut) {
  if (kSanitized) GTEST_SKIP() << "not with a sanitizer: a sanitizer's own checks want descriptors";
  RunningServer running;
  ASSERT_TRUE(RerankWith(OwnChannel(running), "").ok());
  {
    std::vector<std::unique_ptr<RawConnection>> idle;
    const DescriptorsLeft few(40);
    for (int i = 0; i < 60; ++i) {
      idle.push_back(std::make_unique<RawConnection>(running));
      if (!idle.back()->connected()) break;
    }
    // The ends of the client and of the server share the limit, so that accepting has failed by this time.
    ASSERT_FALSE(idle.back()->connected());
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_TRUE(RerankWith(OwnChannel(running), "").ok());
}

TEST_F(GateServiceTest, TheServerIsNotReadyWhileItsPortCannotBeReached) {
  if (kSanitized) GTEST_SKIP() << "not with a sanitizer: a sanitizer's own checks want descriptors";
  RunningServer running;
  EXPECT_TRUE(running.server().Readiness().ok());
  {
    const DescriptorsLeft none(0);
    // What something else gives back meanwhile is taken too.
    HeldDescriptors held;
    for (const auto end = std::chrono::steady_clock::now() + kLong;
         running.server().Readiness().ok() && std::chrono::steady_clock::now() < end;) {
      held.TakeAll();
      std::this_thread::sleep_for(50ms);
    }
    EXPECT_THAT(running.server().Readiness().ToString(), HasSubstr("the gRPC port"));
    EXPECT_TRUE(WaitForMetric(running, "maxsim_ready", 0));
  }
  EXPECT_TRUE(WaitForMetric(running, "maxsim_ready", 1));
  EXPECT_TRUE(running.server().Readiness().ok());
}

TEST_F(GateServiceTest, AConnectionBeyondTheBoundTakesThePlaceOfTheOneThatHasWaitedLongest) {
  RunningServer running([](config::Config* config) { config->grpc.max_connections = 8; });
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<RawConnection>(running));
  EXPECT_TRUE(RerankWith(OwnChannel(running), "").ok());
  idle.front()->ReadToEnd();
  EXPECT_TRUE(idle.front()->ended());
  EXPECT_GE(MetricOf(running, "maxsim_grpc_connections_ended_total{reason=\"full\"}"), 12);
}

TEST_F(GateServiceTest, WhatGrpcHasIsNotClosedForNewcomers) {
  RunningServer running([](config::Config* config) { config->grpc.max_connections = 2; });
  std::vector<std::shared_ptr<grpc::Channel>> served;
  for (int i = 0; i < 2; ++i) {
    served.push_back(OwnChannel(running));
    ASSERT_TRUE(RerankWith(served.back(), "").ok());
  }
  RawConnection newcomer(running);
  newcomer.ReadToEnd();
  EXPECT_TRUE(newcomer.ended());
  for (const auto& channel : served) {
    EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
    EXPECT_TRUE(RerankWith(channel, "").ok());
  }
  // The connections no longer count once they are gone.
  EXPECT_TRUE(WaitForMetric(running, "maxsim_grpc_connections{state=\"open\"}", 2));
  served.clear();
  EXPECT_TRUE(WaitForMetric(running, "maxsim_grpc_connections{state=\"open\"}", 0));
  EXPECT_TRUE(RerankWith(OwnChannel(running), "").ok());
}

TEST_F(GateServiceTest, AnAddressHasItsOwnBound) {
  RunningServer running([](config::Config* config) { config->grpc.max_connections_per_peer = 3; });
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<RawConnection>(running));
  EXPECT_TRUE(WaitForMetric(running, "maxsim_grpc_connections_ended_total{reason=\"peer_full\"}", 2));
  EXPECT_TRUE(RerankWith(OwnChannel(running), "").ok());
}

TEST_F(GateServiceTest, AConnectionWithoutACallEndsAfterItsTime) {
  const auto running = ServeWithTokens([](config::Config* c) { c->grpc.first_call_timeout = absl::Milliseconds(200); });
  RawConnection silent(*running);
  RawConnection polite(*running);
  polite.Send(Begin());
  // The gate sends SETTINGS, and a GOAWAY that names none of the calls.
  EXPECT_EQ(polite.ReadToEnd(), absl::StrCat(GateSettings(), gate::Goaway(0, gate::ErrorCode::kNoError)));
  silent.ReadToEnd();
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(WaitForMetric(*running, "maxsim_grpc_connections_ended_total{reason=\"timeout\"}", 2));
  // A client that has connected early and calls late connects again by itself.
  const auto channel = OwnChannel(*running);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kLong));
  std::this_thread::sleep_for(500ms);
  EXPECT_TRUE(RerankWith(channel, "secret").ok());
}

TEST_F(GateServiceTest, TheFirstSettingsBoundStreamsAsGrpcsDo) {
  const auto running = ServeWithTokens([](config::Config* c) {
    c->grpc.max_concurrent_streams = 7;
    c->grpc.first_call_timeout = absl::Milliseconds(200);
  });
  RawConnection client(*running);
  EXPECT_EQ(client.ReadToEnd(), absl::StrCat(gate::Settings(7), gate::Goaway(0, gate::ErrorCode::kNoError)));
}

TEST_F(GateServiceTest, ConnectionsThatWaitAreToldWhenTheServerStops) {
  const std::string told = absl::StrCat(GateSettings(), gate::Goaway(0, gate::ErrorCode::kNoError));
  for (const bool with_tokens : {false, true}) {
    const auto running = with_tokens ? ServeWithTokens(nullptr) : std::make_unique<RunningServer>();
    RawConnection silent(*running);
    ASSERT_TRUE(WaitForMetric(*running, "maxsim_grpc_connections{state=\"waiting\"}", 1));
    EXPECT_EQ(running->Stop(), 0);
    EXPECT_EQ(silent.ReadToEnd(), told) << (with_tokens ? "with tokens" : "without tokens");
    EXPECT_TRUE(silent.ended());
  }
}

TEST_F(GateServiceTest, PingsAreAnsweredBeforeTheFirstCall) {
  const auto running = ServeWithTokens([](config::Config* c) { c->grpc.first_call_timeout = absl::Milliseconds(300); });
  RawConnection client(*running);
  client.Send(Begin() + Frame(FrameType::kPing, 0, 0, "12345678"));
  EXPECT_THAT(client.ReadToEnd(), HasSubstr(gate::PingAck("12345678")));
}

TEST_F(GateServiceTest, CallsWithAndWithoutATokenOnOneChannel) {
  const auto running = ServeWithTokens();
  const auto channel = OwnChannel(*running);
  for (int round = 0; round < 3; ++round) {
    const grpc::Status without = RerankWith(channel, "");
    EXPECT_EQ(without.error_code(), grpc::UNAUTHENTICATED) << without.error_message();
    EXPECT_THAT(without.error_message(), HasSubstr("carries no bearer token"));
    // A request that is larger than the window of a connection does not wait for room in it.
    const grpc::Status wrong = RerankWith(channel, "wrong", /*query_tokens=*/2000);
    EXPECT_EQ(wrong.error_code(), grpc::UNAUTHENTICATED) << wrong.error_message();
    EXPECT_THAT(wrong.error_message(), HasSubstr("not known"));
    const grpc::Status right = RerankWith(channel, "another", /*query_tokens=*/2000);
    EXPECT_TRUE(right.ok()) << right.error_message();
  }
  EXPECT_EQ(MetricOf(*running, "maxsim_requests_total{code=\"UNAUTHENTICATED\",method=\"Rerank\"}"), 6);
}

TEST_F(GateServiceTest, ManyCallsAtOnceWithoutATokenEachGetTheirAnswer) {
  const auto running = ServeWithTokens();
  const auto channel = OwnChannel(*running);
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&channel] {
      for (int call = 0; call < 5; ++call) {
        EXPECT_EQ(RerankWith(channel, "wrong").error_code(), grpc::UNAUTHENTICATED);
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(GateServiceTest, HealthNeedsNoToken) {
  const auto running = ServeWithTokens();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(HealthOf(OwnChannel(*running), "maxsim.v1.Reranker"), Health::kServing);
  }
}

// A client may watch the health of its server before it makes calls.
TEST_F(GateServiceTest, CallsWithATokenFollowAHealthCheckOnTheSameConnection) {
  const auto running = ServeWithTokens();
  const auto channel = OwnChannel(*running);
  EXPECT_EQ(HealthOf(channel, ""), Health::kServing);
  EXPECT_TRUE(WaitForMetric(*running, "maxsim_grpc_connections{state=\"relayed\"}", 1));
  for (int call = 0; call < 20; ++call) {
    const grpc::Status status = RerankWith(channel, "secret", /*query_tokens=*/2000);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(RerankWith(channel, "wrong").error_code(), grpc::UNAUTHENTICATED);
    EXPECT_EQ(HealthOf(channel, ""), Health::kServing);
  }
  EXPECT_EQ(MetricOf(*running, "maxsim_grpc_connections{state=\"open\"}"), 0) << "the connection has changed";
  EXPECT_EQ(MetricOf(*running, "maxsim_grpc_connections{state=\"relayed\"}"), 1);
}

TEST_F(GateServiceTest, ACallWithoutATokenOnARelayedConnectionIsRefusedByTheService) {
  const auto running = ServeWithTokens();
  const auto channel = OwnChannel(*running);
  EXPECT_EQ(HealthOf(channel, ""), Health::kServing);
  EXPECT_EQ(RerankWith(channel, "wrong").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_TRUE(RerankWith(channel, "secret").ok());
}

// These limits keep a client from filling the server's memory before it has shown a token.
TEST_F(GateServiceTest, FloodsWithoutATokenEndTheirConnection) {
  const auto running = ServeWithTokens();
  gate::Packer packer;
  const std::string watch = gate::Call(packer, 1, kWatchPath, "");
  struct Flood {
    std::string name;
    std::string first;
    std::string repeated;
  };
  const std::string junk(gate::kMaxFrameBytes, '\0');
  const std::vector<Flood> floods = {
      {"not HTTP/2", "GET / HTTP/1.1\r\n", "a: b\r\n"},
      {"continuations", Begin() + Frame(FrameType::kHeaders, 0, 1, "\x82"),
       Frame(FrameType::kContinuation, 0, 1, std::string(gate::kMaxFrameBytes, '\x82'))},
      {"empty continuations", Begin() + Frame(FrameType::kHeaders, 0, 1, "\x82"),
       Frame(FrameType::kContinuation, 0, 1, "")},
      {"settings", Begin(), ClientSettings()},
      {"window updates", Begin(), gate::WindowUpdate(0, 1)},
      {"continuations of a health check", Begin() + watch + Frame(FrameType::kHeaders, 0, 3, "\x82"),
       Frame(FrameType::kContinuation, 0, 3, std::string(gate::kMaxFrameBytes, '\x82'))},
      {"a frame that never ends", Begin() + std::string("\xff\xff\xff\0\0\0\0\0\1", 9), junk},
  };
  for (const Flood& flood : floods) {
    RawConnection client(*running);
    ASSERT_TRUE(client.Send(flood.first)) << flood.name;
    uint64_t sent = 0;
    while (client.Send(flood.repeated)) {
      sent += flood.repeated.size();
      ASSERT_LT(sent, uint64_t{64} << 20) << flood.name << ": the server takes everything";
    }
  }
  EXPECT_TRUE(RerankWith(OwnChannel(*running), "secret").ok());
}

TEST_F(GateServiceTest, CallsOfHealthWithoutEndAreSlowedAndStreamsBounded) {
  const auto running = ServeWithTokens();
  gate::Packer packer;
  RawConnection client(*running);
  ASSERT_TRUE(client.Send(Begin()));
  // Streams that stay open end the connection.
  bool open = true;
  for (uint32_t stream = 1; open && stream < 2001; stream += 2)
    open = client.Send(gate::Call(packer, stream, kCheckPath, ""));
  EXPECT_TRUE(client.ReadToEnd().empty() || client.ended());
  EXPECT_TRUE(client.ended());
  // Calls that end are let through at the rate of honest checks.
  gate::Packer other;
  RawConnection resets(*running);
  ASSERT_TRUE(resets.Send(Begin()));
  const auto began = std::chrono::steady_clock::now();
  std::string bytes;
  for (uint32_t stream = 1; stream < 20001; stream += 2) {
    bytes +=
        gate::Call(other, stream, kCheckPath, "") + Frame(FrameType::kResetStream, 0, stream, std::string(4, '\0'));
  }
  std::thread sender([&] { resets.Send(bytes); });
  EXPECT_TRUE(RerankWith(OwnChannel(*running), "secret").ok());
  std::this_thread::sleep_until(began + 1s);
  EXPECT_TRUE(running->server().Readiness().ok());
  running->Stop();
  sender.join();
}

TEST_F(GateServiceTest, WatchesThatTheirClientHasResetDoNotCount) {
  const auto running = ServeWithTokens();
  gate::Packer packer;
  RawConnection client(*running);
  ASSERT_TRUE(client.Send(Begin()));
  for (uint32_t stream = 1; stream < 21; stream += 2) {
    ASSERT_TRUE(client.Send(gate::Call(packer, stream, kWatchPath, "") +
                            Frame(FrameType::kResetStream, 0, stream, std::string(4, '\0'))));
  }
  EXPECT_EQ(client.ReadToEnd(500ms), "");
  EXPECT_FALSE(client.ended()) << "ten watches of which none is open";
  for (uint32_t stream = 21; stream < 31; stream += 2) client.Send(gate::Call(packer, stream, kWatchPath, ""));
  client.ReadToEnd();
  EXPECT_TRUE(client.ended()) << "five watches at a time";
}

TEST_F(GateServiceTest, AFloodOfBytesAfterAHealthCheckEndsTheConnection) {
  const auto running = ServeWithTokens();
  gate::Packer packer;
  RawConnection client(*running);
  ASSERT_TRUE(client.Send(Begin() + gate::Call(packer, 1, kCheckPath, "")));
  // At its rate limit, the server would read these calls for longer than the test may take.
  std::string bytes;
  for (int frame = 0; frame < 1024; ++frame) {
    bytes += Frame(FrameType::kData, 0, 1, std::string(gate::kMaxFrameBytes, 'x'));
  }
  client.Send(bytes);
  client.ReadToEnd();
  EXPECT_TRUE(client.ended());
}

}  // namespace
}  // namespace maxsim::test
