// Tests the limits that the gate (in front of gRPC) sets to connections: their number, their number per address, their
// age. Also tests the gate when the process has no descriptors left.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/service/ports/gate_fixture.h"
#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// Allows this process, in which the server runs too, `num_left` more descriptors until the object is destroyed.
class DescriptorsLeft {
 public:
  explicit DescriptorsLeft(int num_left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);  // the lowest free number
    close(next);
    rlimit lowered = before_;
    lowered.rlim_cur = static_cast<rlim_t>(next) + static_cast<rlim_t>(num_left);
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~DescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Holds descriptors until it is destroyed.
class HeldDescriptors {
 public:
  HeldDescriptors() = default;
  ~HeldDescriptors() {
    for (const int descriptor : descriptors_) close(descriptor);
  }
  HeldDescriptors(const HeldDescriptors&) = delete;
  HeldDescriptors& operator=(const HeldDescriptors&) = delete;

  // Opens descriptors until the process may open no more.
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
    std::vector<std::unique_ptr<ScriptedConnection>> idle;
    const DescriptorsLeft few(40);
    for (int i = 0; i < 60; ++i) {
      idle.push_back(std::make_unique<ScriptedConnection>(running));
      if (!idle.back()->connected()) break;
    }
    // Client and server share the limit of descriptors. So the server has now failed to accept a connection.
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
    // Takes all free descriptors again and again, because other code of the process may close some meanwhile.
    HeldDescriptors held;
    for (const auto end = std::chrono::steady_clock::now() + kTestLimit;
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
  std::vector<std::unique_ptr<ScriptedConnection>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<ScriptedConnection>(running));
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
  ScriptedConnection newcomer(running);
  newcomer.ReadToEnd();
  EXPECT_TRUE(newcomer.ended());
  for (const auto& channel : served) {
    EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
    EXPECT_TRUE(RerankWith(channel, "").ok());
  }
  // Closed connections no longer count.
  EXPECT_TRUE(WaitForMetric(running, "maxsim_grpc_connections{state=\"open\"}", 2));
  served.clear();
  EXPECT_TRUE(WaitForMetric(running, "maxsim_grpc_connections{state=\"open\"}", 0));
  EXPECT_TRUE(RerankWith(OwnChannel(running), "").ok());
}

TEST_F(GateServiceTest, AnAddressHasItsOwnBound) {
  RunningServer running([](config::Config* config) { config->grpc.max_connections_per_peer = 3; });
  std::vector<std::unique_ptr<ScriptedConnection>> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<ScriptedConnection>(running));
  EXPECT_TRUE(WaitForMetric(running, "maxsim_grpc_connections_ended_total{reason=\"peer_full\"}", 2));
  EXPECT_TRUE(RerankWith(OwnChannel(running), "").ok());
}

TEST_F(GateServiceTest, AConnectionWithoutACallEndsAfterItsTime) {
  const auto running = ServeWithTokens([](config::Config* c) { c->grpc.first_call_timeout = absl::Milliseconds(200); });
  ScriptedConnection silent(*running);
  ScriptedConnection polite(*running);
  polite.Send(Begin());
  // The gate sends SETTINGS, and a GOAWAY that names none of the calls.
  EXPECT_EQ(polite.ReadToEnd(), absl::StrCat(GateSettings(), gate::Goaway(0, gate::ErrorCode::kNoError)));
  silent.ReadToEnd();
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(WaitForMetric(*running, "maxsim_grpc_connections_ended_total{reason=\"timeout\"}", 2));
  // A gRPC client that connects early and makes its first call late loses its connection, and must reconnect by itself.
  const auto channel = OwnChannel(*running);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kTestLimit));
  std::this_thread::sleep_for(500ms);
  EXPECT_TRUE(RerankWith(channel, "secret").ok());
}

}  // namespace
}  // namespace maxsim::test
