// Tests the program maxsimd: how it starts and stops, its signals, and its port file.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "nlohmann/json.hpp"
#include "tests/service/maxsimd_process_fixture.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(ProcessTest, ThePortFileNamesPortsAndProcessOnceTheServerIsReady) {
  WriteFile(folder_ / "ports", R"({"grpc_port":1,"http_port":1,"pid":1})");  // left by a server that was killed
  Process process(folder_ / "log", Args());
  while (process.Log().find("listening") == std::string::npos && process.Log().find("does not") == std::string::npos)
    std::this_thread::sleep_for(5ms);
  const json ports = Ports();
  EXPECT_EQ(ports["pid"], process.pid());
  EXPECT_EQ(HttpGet(ports["http_port"], "/readyz").status, 200);
  auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(ports["grpc_port"].get<int>()),
                                     grpc::InsecureChannelCredentials());
  EXPECT_EQ(HealthOf(channel, ""), Health::kServing);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.Log();
  EXPECT_THAT(process.Log(), HasSubstr("reason=SIGTERM"));
  EXPECT_NE(access((folder_ / "ports").c_str(), F_OK), 0) << "a stopped server's ports";
}

// After loading a collection, the server itself sends a first query to it. Limits on waiting must not apply to this
// query.
TEST_F(ProcessTest, ItStartsHoweverShortlyRequestsMayWait) {
  Process process(folder_ / "log",
                  Args({"--batching.max_queue_time=1us", "--collection", "again=" + folder_ / "corpus"}));
  Ports();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.Log();
}

TEST_F(ProcessTest, AStopUnderLoadLosesNoAcceptedRequestAndReadinessFallsFirst) {
  Process process(folder_ / "log", Args({"--server.shutdown_delay=1s"}));
  const json ports = Ports();
  const std::string address = "127.0.0.1:" + std::to_string(ports["grpc_port"].get<int>());
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 8);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < kNumDocuments; ++i) all.push_back(i);
  const v1::RerankRequest request = MakeRequest("corpus", query, AllIds(), 20);

  using Clock = std::chrono::steady_clock;
  std::atomic<int64_t> answered{0};
  std::atomic<int64_t> answered_while_not_ready{0};
  std::atomic<bool> not_ready{false};
  std::atomic<int64_t> first_refusal_us{INT64_MAX};
  const Clock::time_point begin = Clock::now();
  const auto now_us = [&] {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  };
  std::vector<std::thread> clients;
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&] {
      auto stub = v1::Reranker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
      while (true) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
        const bool was_not_ready = not_ready;
        v1::RerankResponse response;
        const grpc::Status status = stub->Rerank(&context, request, &response);
        if (status.ok()) {
          EXPECT_EQ(WrongAnswer(documents_, query, all, 20, response.results(0)), "");
          ++answered;
          if (was_not_ready) ++answered_while_not_ready;
          continue;
        }
        // A request that fails during a shutdown must be refused. Any other error would mean that an accepted request
        // was lost.
        EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
        EXPECT_THAT(status.error_message(), testing::Not(HasSubstr("reset"))) << "the connection was cut";
        int64_t earliest = first_refusal_us;
        const int64_t now = now_us();
        while (now < earliest && !first_refusal_us.compare_exchange_weak(earliest, now)) continue;
        return;
      }
    });
  }
  while (answered < 100) std::this_thread::sleep_for(1ms);
  process.Signal(SIGTERM);
  int64_t fell_us = INT64_MAX;
  while (fell_us == INT64_MAX && process.pid() > 0 && now_us() < std::chrono::microseconds(kTestLimit).count()) {
    if (HttpGet(ports["http_port"], "/readyz").status == 503) {
      fell_us = now_us();
      not_ready = true;
    }
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(process.Wait(), 0) << process.Log();
  EXPECT_LT(fell_us, first_refusal_us) << "requests were refused before readiness fell";
  EXPECT_GT(answered_while_not_ready, 0) << "nothing was served during the delay";
  EXPECT_THAT(process.Log(), HasSubstr("unanswered_requests=0"));
}

TEST_F(ProcessTest, ASecondSignalEndsItAtOnce) {
  Process process(folder_ / "log", Args({"--server.shutdown_delay=10m"}));
  Ports();
  process.Signal(SIGTERM);
  while (process.Log().find("reason=SIGTERM") == std::string::npos) std::this_thread::sleep_for(5ms);
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 128 + SIGINT);
}

TEST_F(ProcessTest, ASignalToProcessAndGroupIsMeantOnce) {
  Process process(folder_ / "log", Args({"--server.shutdown_delay=300ms"}));
  Ports();
  process.Signal(SIGTERM);
  std::this_thread::sleep_for(2ms);  // without a pause, the system could merge the two signals into one
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.Log();
}

TEST_F(ProcessTest, HangUpReloadsTheCollections) {
  Process process(folder_ / "log", Args({"--log.format=json"}));
  const json ports = Ports();
  Publish(folder_ / "corpus", ServedDocuments(9));
  process.Signal(SIGHUP);
  const auto generation = [&] {
    const json body = json::parse(HttpGet(ports["http_port"], "/v1/collections").body, nullptr, false);
    return body.is_discarded() ? 0 : body["collections"][0].value("generation", 0);
  };
  EXPECT_TRUE(Eventually([&] { return generation() == 2; }));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  // Every line of the log must be a JSON object. The lines about collections must have members that one can search by.
  std::map<std::string, json> last;
  std::istringstream lines(process.Log());
  for (std::string line; std::getline(lines, line);) {
    json event = json::parse(line, nullptr, false);
    ASSERT_TRUE(event.is_object()) << line;
    last[event.value("message", "")] = event;
  }
  EXPECT_EQ(last["collection_loaded"].value("generation", 0), 2) << process.Log();
  EXPECT_EQ(last["collection_loaded"].value("documents", 0), 200);
  EXPECT_TRUE(last["memory_plan"].value("fits", false));
  EXPECT_GT(last["memory_plan"].value("needed_bytes", int64_t{0}), 0);
  EXPECT_THAT(last["memory_plan"].value("table", ""), HasSubstr("generation 2: 200 documents"));
}

TEST_F(ProcessTest, WhatKeepsItFromStartingIsSaidInOneLine) {
  const auto expect = [&](std::vector<std::string> args, int exit_code, const std::string& text) {
    const auto [code, log] = Run(std::move(args));
    EXPECT_EQ(code, exit_code) << log;
    EXPECT_THAT(log, HasSubstr(text));
    // The server writes the port file last, when it already serves.
    if (text.find("port_file") == std::string::npos) {
      EXPECT_THAT(log, Not(HasSubstr("unanswered_requests")));
    }
  };
  expect({"--config", "/no/such/file"}, 2, "maxsimd: --config: cannot read /no/such/file: No such file or directory\n");
  expect({"--config", "/etc"}, 2, "maxsimd: --config: /etc is a folder, not a file\n");
  expect({"--engine.lane=1"}, 2, "maxsimd: unknown flag --engine.lane (did you mean --engine.lanes?)\n");
  expect(Args({"--collection", "gone=/no/such/folder"}), 1, "collection gone: ");
  expect(Args({"--tls.cert_file=/no/cert", "--tls.key_file=/no/key"}), 1,
         "tls.cert_file: cannot read /no/cert: No such file");
  expect(Args({"--auth.tokens_file=/no/tokens"}), 1, "auth.tokens_file: cannot read /no/tokens");
  expect(Args({"--server.port_file=/no/such/folder/ports"}), 1, "server.port_file: cannot write /no/such/folder/ports");
  expect(Args({"--backend.cpu_isa=mmx"}), 2, "mmx");
}

TEST_F(ProcessTest, APortInUseIsNamed) {
  Process first(folder_ / "log", Args());
  const json ports = Ports();
  const std::string grpc_address = "127.0.0.1:" + std::to_string(ports["grpc_port"].get<int>());
  const auto [code, log] = Run(Args({"--grpc.address=" + grpc_address}));
  EXPECT_EQ(code, 1);
  EXPECT_THAT(log, HasSubstr("grpc.address: cannot listen on " + grpc_address + ": Address already in use"));
  const auto [http_code, http_log] =
      Run(Args({"--http.address=127.0.0.1:" + std::to_string(ports["http_port"].get<int>())}));
  EXPECT_EQ(http_code, 1);
  EXPECT_THAT(http_log, HasSubstr("http.address: cannot listen on 127.0.0.1:" +
                                  std::to_string(ports["http_port"].get<int>()) + ": Address already in use"));
  EXPECT_EQ(Ports()["pid"], first.pid()) << "they took the first one's port file with them";
}

TEST_F(ProcessTest, AStopLeavesThePortFileOfAnotherServer) {
  Process process(folder_ / "log", Args());
  Ports();
  const std::string other = R"({"grpc_port":1,"http_port":1,"pid":1})";
  WriteFile(folder_ / "ports", other);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.Log();
  EXPECT_EQ(ReadFile(folder_ / "ports"), other);
}

TEST_F(ProcessTest, TheInformationFlagsPrintAndExit) {
  EXPECT_THAT(Run({"--version"}).second, StartsWith("maxsimd "));
  EXPECT_THAT(Run({"--help"}).second, HasSubstr("--grpc.address"));
  const auto [code, yaml] = Run({"--print-config", "--engine.lanes=3", "--grpc.address=127.0.0.1:0"});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(yaml, HasSubstr("lanes: 3  # --engine.lanes"));
  WriteFile(folder_ / "c.yaml", yaml);
  EXPECT_EQ(Run({"--check-config", "--config", folder_ / "c.yaml"}).first, 0);
}

}  // namespace
}  // namespace maxsim::test
