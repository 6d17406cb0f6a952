// Tests maxsimd as a program: signals, exit codes, the port file, and a stop under load that loses nothing.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "nlohmann/json.hpp"
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

// Returns $MAXSIM_BIN_DIR/maxsimd, or bin/maxsimd beside this test's folder, or "" where there is none.
std::string ProgramPath() {
  std::string folder;
  if (const char* configured = std::getenv("MAXSIM_BIN_DIR"); configured != nullptr) {
    folder = configured;
  } else {
    char self[4096];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof(self));
    if (size <= 0) return "";
    const std::string path(self, static_cast<size_t>(size));
    folder = path.substr(0, path.rfind('/')) + "/../bin";
  }
  const std::string program = folder + "/maxsimd";
  return access(program.c_str(), X_OK) == 0 ? program : "";
}

// Runs maxsimd with its output in a file, and kills it when the object is destroyed.
class Process {
 public:
  Process(const std::string& log, std::vector<std::string> args)
      : Process(open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600), std::move(args), log) {
    close(output_);
  }
  // Sends the program's output to `output`, which stays the caller's.
  Process(int output, std::vector<std::string> args, const std::string& log = "/dev/null")
      : output_(output), log_(log) {
    const std::string program = ProgramPath();
    args.insert(args.begin(), program);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
  }
  ~Process() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void Signal(int number) const { kill(pid_, number); }

  // Returns the exit code, 128 + the number of the signal that ended it, or -1 after `timeout`.
  int Wait(std::chrono::seconds timeout = kTestLimit) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (std::chrono::steady_clock::now() < deadline) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(5ms);
    }
    return -1;
  }

  pid_t pid() const { return pid_; }
  std::string Log() const { return ReadFile(log_); }

 private:
  const int output_;
  const std::string log_;
  pid_t pid_ = -1;
};

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (ProgramPath().empty()) GTEST_SKIP() << "no maxsimd in MAXSIM_BIN_DIR or ../bin";
    documents_ = ServedDocuments(TestSeed());
    Publish(folder_ / "corpus", documents_);
  }

  std::vector<std::string> Args(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"--collection",
                                     "corpus=" + folder_ / "corpus",
                                     "--grpc.address=127.0.0.1:0",
                                     "--http.address=127.0.0.1:0",
                                     "--backend=cpu",
                                     "--backend.cpu_threads=2",
                                     "--server.port_file=" + folder_ / "ports",
                                     "--server.shutdown_delay=0"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  // Waits for the port file. Returns a null value when it does not come.
  json Ports() const {
    const auto deadline = std::chrono::steady_clock::now() + kTestLimit;
    while (std::chrono::steady_clock::now() < deadline) {
      if (access((folder_ / "ports").c_str(), R_OK) == 0)
        return json::parse(ReadFile(folder_ / "ports"), nullptr, false);
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "no port file\n" << ReadFile(folder_ / "log");
    return {};
  }

  // Runs the program to its end.
  std::pair<int, std::string> Run(std::vector<std::string> args) {
    Process process(folder_ / "run.log", std::move(args));
    const int code = process.Wait();
    return {code, process.Log()};
  }

  // Sends one request to the server of the port file. Returns whether it was answered.
  bool Ask(const std::string& collection, const std::string& request_id) const {
    const std::string address = "127.0.0.1:" + std::to_string(Ports()["grpc_port"].get<int>());
    const auto stub = v1::Reranker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    v1::RerankRequest request = MakeRequest(collection, MakeQuery(TestSeed(), ScalarType::kF16, kDim, 8), AllIds(), 20);
    request.set_request_id(request_id);
    grpc::ClientContext context;
    v1::RerankResponse response;
    return stub->Rerank(&context, request, &response).ok();
  }

  // Stops a server that logs JSON, and returns the lines of this event in its log.
  static std::vector<json> StopAndFind(Process& process, const std::string& event) {
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0) << process.Log();
    std::vector<json> found;
    std::istringstream lines(process.Log());
    for (std::string line; std::getline(lines, line);) {
      json one = json::parse(line, nullptr, false);
      if (one.is_object() && one.value("message", "") == event) found.push_back(std::move(one));
    }
    return found;
  }

  TemporaryFolder folder_;
  RandomDocuments documents_;
};

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

// The first query of each collection is the server's own, and a machine may take as long for it as it likes.
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
        // A refused request must never have been accepted. Any error but a refusal would be a lost request.
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
  std::this_thread::sleep_for(2ms);  // without a wait they could be one
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
  // Every line is an object, and the store's events have members to search by.
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
    std::this_thread::sleep_for(150ms);  // the wait passes the bound on warnings a second
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

// Sends, without a token, a call with a `te` header of `size` bytes that is not "trailers", which gRPC logs as an
// error.
void SendBadHeader(int port, size_t size) {
  const auto frame = [](int type, int flags, int stream, const std::string& payload) {
    std::string bytes;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(payload.size() >> shift);
    bytes += static_cast<char>(type);
    bytes += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
    return bytes + payload;
  };
  // The header is a literal without indexing: its name, then its value with a length of seven bits and groups of seven
  // more.
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
  // The server answers the settings at once, and has looked at the rest by then.
  bool closed = false;
  connection.FinishSending();
  connection.ReadToEnd(&closed, 1000ms);
}

TEST_F(ProcessTest, AReaderOfTheLogThatStallsHoldsUpNoCallAndNoStop) {
  int log[2];
  ASSERT_EQ(pipe2(log, O_CLOEXEC), 0);
  // The pipe is full before the server begins, so that every line waits.
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
  EXPECT_EQ(process.Wait(), 0);  // the reader never reads
  close(log[0]);
}

TEST_F(ProcessTest, ALineThatAClientCausesIsShortAndTheyAreFewInASecond) {
  Process process(folder_ / "log", Args());
  const json ports = Ports();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) SendBadHeader(ports["grpc_port"], size_t{1} << 20);
  // A busy machine may need several rounds to cause more lines in a second than are written.
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

TEST_F(ProcessTest, WhatKeepsItFromStartingIsSaidInOneLine) {
  const auto expect = [&](std::vector<std::string> args, int exit_code, const std::string& text) {
    const auto [code, log] = Run(std::move(args));
    EXPECT_EQ(code, exit_code) << log;
    EXPECT_THAT(log, HasSubstr(text));
    // The port file comes last, when the server has begun to serve.
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
