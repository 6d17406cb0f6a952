// Tests the log of maxsimd: the lines about requests and about token files, and the limits on the number of lines.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
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

TEST_F(ProcessTest, HangUpSaysOfEachFileOfTokensWhetherItWasTaken) {
  WriteFile(folder_ / "tokens", "searcher\n");
  WriteFile(folder_ / "admin_tokens", "operator\n");
  Process process(folder_ / "log", Args({absl::StrCat("--auth.tokens_file=", folder_ / "tokens"),
                                         absl::StrCat("--auth.admin_tokens_file=", folder_ / "admin_tokens")}));
  Ports();
  WriteFile(folder_ / "tokens", "searcher\nsuccessor\n");
  WriteFile(folder_ / "admin_tokens", "");
  process.Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return process.Log().find("admin_tokens_") != std::string::npos; }));
  EXPECT_THAT(process.Log(), HasSubstr(" tokens_reloaded tokens=2"));
  EXPECT_THAT(process.Log(), HasSubstr(" admin_tokens_not_reloaded error="));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(ProcessTest, RequestsAreLoggedByTheirIdAndSlowOnesAreWarnedOf) {
  for (const auto& [event, level, flag] : {std::tuple("request", "debug", "--log.level=debug"),
                                           std::tuple("slow_request", "warning", "--log.slow_request=1us")}) {
    Process process(folder_ / "log", Args({"--log.format=json", flag}));
    EXPECT_TRUE(Ask("corpus", "a-17"));
    std::this_thread::sleep_for(150ms);  // lets the limit of warnings per second allow the next one
    EXPECT_FALSE(Ask("gone", "a-18"));
    const std::vector<json> lines = StopAndFind(process, event);
    ASSERT_EQ(lines.size(), 2u) << event;
    EXPECT_EQ(lines[0].value("level", ""), level);
    EXPECT_EQ(lines[0].value("request_id", ""), "a-17");
    EXPECT_EQ(lines[0].value("collection", ""), "corpus");
    EXPECT_EQ(lines[0].value("code", ""), "OK");
    const int64_t kernel_us = lines[0].value("kernel_us", int64_t{0});
    EXPECT_GT(kernel_us, 0);
    EXPECT_GE(lines[0].value("duration_us", int64_t{0}), kernel_us);
    EXPECT_GE(lines[0].value("queue_us", int64_t{-1}), 0);
    EXPECT_EQ(lines[1].value("request_id", ""), "a-18");
    EXPECT_EQ(lines[1].value("code", ""), "NOT_FOUND");
    EXPECT_THAT(lines[1].value("error", ""), HasSubstr("gone"));
  }
}

TEST_F(ProcessTest, WarningsOfSlowRequestsAreBoundedAndOnlyOfThose) {
  {
    Process process(folder_ / "log", Args({"--log.format=json", "--log.slow_request=1us"}));
    Ports();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i) Ask("corpus", "b");
    const auto took = std::chrono::steady_clock::now() - begin;
    const auto lines = StopAndFind(process, "slow_request").size();
    EXPECT_GE(lines, 1u);
    EXPECT_LE(lines, static_cast<size_t>(took / 100ms) + 1);
  }
  for (const char* flag : {"--log.slow_request=1h", "--log.slow_request=0"}) {
    Process process(folder_ / "log", Args({"--log.format=json", flag}));
    EXPECT_TRUE(Ask("corpus", "c"));
    EXPECT_TRUE(StopAndFind(process, "slow_request").empty()) << flag;
  }
}

// Sends a call without a token, whose `te` header has `size` bytes and is not "trailers". gRPC logs an error about it.
void SendBadHeader(int port, size_t size) {
  const auto frame = [](int type, int flags, int stream, const std::string& payload) {
    std::string bytes;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(payload.size() >> shift);
    bytes += static_cast<char>(type);
    bytes += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
    return bytes + payload;
  };
  // Encodes the header in HPACK as a literal: the name, then the length of the value (a 7-bit prefix and groups of 7
  // bits), then the value.
  std::string block = std::string("\x10\x02te", 4) + '\x7f';
  size_t rest = size - 127;
  for (; rest >= 128; rest >>= 7) block += static_cast<char>((rest & 127) | 128);
  block += static_cast<char>(rest);
  block += std::string(size, 'x');
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");
  for (size_t begin = 0; begin < block.size(); begin += 16384) {
    const std::string part = block.substr(begin, 16384);
    const bool last = begin + part.size() == block.size();
    bytes += frame(begin == 0 ? 1 : 9, (last ? 4 : 0) | (begin == 0 ? 1 : 0), 1, part);
  }
  RawConnection connection(port);
  connection.Send(bytes);
  // The server answers the SETTINGS frame only after it has read all bytes before the end.
  bool closed = false;
  connection.FinishSending();
  connection.ReadToEnd(&closed, 1000ms);
}

TEST_F(ProcessTest, AReaderOfTheLogThatStallsHoldsUpNoCallAndNoStop) {
  int log[2];
  ASSERT_EQ(pipe2(log, O_CLOEXEC), 0);
  // Fills the pipe before the server starts, so that the server cannot write its log.
  fcntl(log[1], F_SETFL, O_NONBLOCK);
  while (write(log[1], "x", 1) == 1) continue;
  fcntl(log[1], F_SETFL, 0);
  Process process(log[1], Args({"--log.level=debug", "--server.shutdown_grace=1s"}));
  close(log[1]);
  const json ports = Ports();
  for (int i = 0; i < 50; ++i) SendBadHeader(ports["grpc_port"], 400);
  const auto dropped = [&] {
    const std::string body = HttpGet(ports["http_port"], "/metrics").body;
    const std::string series = "\nmaxsim_log_lines_dropped_total{reason=\"reader\"} ";
    const size_t begin = body.find(series);
    return begin == std::string::npos ? -1 : std::atoll(body.c_str() + begin + series.size());
  };
  const auto stub = v1::Reranker::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(ports["grpc_port"].get<int>()), grpc::InsecureChannelCredentials()));
  v1::RerankRequest request = MakeRequest("corpus", MakeQuery(TestSeed(), ScalarType::kF16, kDim, 8), AllIds(), 20);
  request.set_request_id(std::string(256, 'i'));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; (i % 100 != 0 || dropped() == 0) && std::chrono::steady_clock::now() - begin < kTestLimit; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
    v1::RerankResponse response;
    ASSERT_EQ(stub->Rerank(&context, request, &response).error_code(), grpc::OK);
  }
  EXPECT_GT(dropped(), 0);
  EXPECT_EQ(HttpGet(ports["http_port"], "/readyz").status, 200);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);  // the stop does not wait for the log's reader, which reads nothing
  close(log[0]);
}

TEST_F(ProcessTest, ALineThatAClientCausesIsShortAndTheyAreFewInASecond) {
  Process process(folder_ / "log", Args());
  const json ports = Ports();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) SendBadHeader(ports["grpc_port"], size_t{1} << 20);
  // Sends until more lines come within a second than the server logs per second. A busy machine may need several
  // rounds.
  while (process.Log().find("left_out=") == std::string::npos &&
         std::chrono::steady_clock::now() - begin < kTestLimit) {
    for (int i = 0; i < 40; ++i) SendBadHeader(ports["grpc_port"], 400);
    std::this_thread::sleep_for(1100ms);  // the next line says how many lines were left out
    SendBadHeader(ports["grpc_port"], 400);
    std::this_thread::sleep_for(100ms);
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  size_t num_lines = 0;
  std::istringstream lines(process.Log());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LT(line.size(), 1000u);
    num_lines += line.find("from=grpc") == std::string::npos ? 0 : 1;
  }
  EXPECT_GT(num_lines, 0u) << process.Log();
  EXPECT_LE(num_lines, static_cast<size_t>(10 * (took / 1s + 1)));
  EXPECT_THAT(process.Log(), HasSubstr("left_out="));
}

}  // namespace
}  // namespace maxsim::test
