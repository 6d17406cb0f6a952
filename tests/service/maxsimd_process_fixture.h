// Runs the program maxsimd.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {

// Returns the path of maxsimd in $MAXSIM_BIN_DIR or, by default, in bin/ next to this test's folder. Returns "" if
// there is none.
inline std::string ProgramPath() {
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

// Runs maxsimd with its output in a file. The destructor kills it.
class Process {
 public:
  Process(const std::string& log, std::vector<std::string> args)
      : Process(open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600), std::move(args), log) {
    close(output_);
  }
  // Writes the program's output to the file descriptor `output`, which the caller must close.
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

  // Waits for the end of the program. Returns the exit code, or 128 + the signal's number if a signal ended it, or -1
  // if it still runs after `timeout`.
  int Wait(std::chrono::seconds timeout = kTestLimit) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (std::chrono::steady_clock::now() < deadline) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
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

  // Waits for the port file. Returns its content, or a null value if it does not appear.
  nlohmann::json Ports() const {
    const auto deadline = std::chrono::steady_clock::now() + kTestLimit;
    while (std::chrono::steady_clock::now() < deadline) {
      if (access((folder_ / "ports").c_str(), R_OK) == 0)
        return nlohmann::json::parse(ReadFile(folder_ / "ports"), nullptr, false);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
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

  // Sends one request to the server whose ports are in the port file. Returns whether the call succeeded.
  bool Ask(const std::string& collection, const std::string& request_id) const {
    const std::string address = "127.0.0.1:" + std::to_string(Ports()["grpc_port"].get<int>());
    const auto stub = v1::Reranker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    v1::RerankRequest request = MakeRequest(collection, MakeQuery(TestSeed(), ScalarType::kF16, kDim, 8), AllIds(), 20);
    request.set_request_id(request_id);
    grpc::ClientContext context;
    v1::RerankResponse response;
    return stub->Rerank(&context, request, &response).ok();
  }

  // Stops a server that logs JSON. Returns the lines of this event in its log.
  static std::vector<nlohmann::json> StopAndFind(Process& process, const std::string& event) {
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0) << process.Log();
    std::vector<nlohmann::json> found;
    std::istringstream lines(process.Log());
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json one = nlohmann::json::parse(line, nullptr, false);
      if (one.is_object() && one.value("message", "") == event) found.push_back(std::move(one));
    }
    return found;
  }

  TemporaryFolder folder_;
  RandomDocuments documents_;
};

}  // namespace maxsim::test
