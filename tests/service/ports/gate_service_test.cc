// Tests the gate in front of gRPC in a whole server: calls with and without a token, health checks and floods.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/service/ports/gate_fixture.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/http2_client.h"

namespace maxsim::test {
namespace {

using gate::Frame;
using gate::FrameType;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kCheckPath[] = "/grpc.health.v1.Health/Check";
constexpr char kWatchPath[] = "/grpc.health.v1.Health/Watch";

TEST_F(GateServiceTest, TheFirstSettingsBoundStreamsAsGrpcsDo) {
  const auto running = ServeWithTokens([](config::Config* c) {
    c->grpc.max_concurrent_streams = 7;
    c->grpc.first_call_timeout = absl::Milliseconds(200);
  });
  ScriptedConnection client(*running);
  EXPECT_EQ(client.ReadToEnd(), absl::StrCat(gate::Settings(7), gate::Goaway(0, gate::ErrorCode::kNoError)));
}

TEST_F(GateServiceTest, ConnectionsThatWaitAreToldWhenTheServerStops) {
  const std::string told = absl::StrCat(GateSettings(), gate::Goaway(0, gate::ErrorCode::kNoError));
  for (const bool with_tokens : {false, true}) {
    const auto running = with_tokens ? ServeWithTokens(nullptr) : std::make_unique<RunningServer>();
    ScriptedConnection silent(*running);
    ASSERT_TRUE(WaitForMetric(*running, "maxsim_grpc_connections{state=\"waiting\"}", 1));
    EXPECT_EQ(running->Stop(), 0);
    EXPECT_EQ(silent.ReadToEnd(), told) << (with_tokens ? "with tokens" : "without tokens");
    EXPECT_TRUE(silent.ended());
  }
}

TEST_F(GateServiceTest, PingsAreAnsweredBeforeTheFirstCall) {
  const auto running = ServeWithTokens([](config::Config* c) { c->grpc.first_call_timeout = absl::Milliseconds(300); });
  ScriptedConnection client(*running);
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
    // This request is larger than a connection's flow-control window. The gate must refuse it without waiting for all
    // of it.
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

// A client without a valid token must not be able to fill the server's memory.
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
    ScriptedConnection client(*running);
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
  ScriptedConnection client(*running);
  ASSERT_TRUE(client.Send(Begin()));
  // If a client opens too many streams and leaves them open, the gate must end the connection.
  bool open = true;
  for (uint32_t stream = 1; open && stream < 2001; stream += 2)
    open = client.Send(gate::Call(packer, stream, kCheckPath, ""));
  EXPECT_TRUE(client.ReadToEnd().empty() || client.ended());
  EXPECT_TRUE(client.ended());
  // The gate passes on calls that end, but only as many per second as honest health checks need.
  gate::Packer other;
  ScriptedConnection resets(*running);
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
  ScriptedConnection client(*running);
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
  ScriptedConnection client(*running);
  ASSERT_TRUE(client.Send(Begin() + gate::Call(packer, 1, kCheckPath, "")));
  // 16 MiB of data for this one call. At the rate limit of clients without a token (16 KiB/s), the server would read
  // them for a quarter of an hour. So it must close the connection instead.
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
