#include "tests/service/tools/programs.h"
#include "tests/support/values/eventually.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace maxsim::client {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(120);  // generous, for sanitizers on a busy machine
const absl::Duration kStopLimit = absl::FromChrono(test::kTestLimit);

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Starts a program that writes its standard output and standard error to the files `out` and `err`. Returns the process
// id, or -1 if the program cannot be started.
pid_t Spawn(const std::string& path, const std::vector<std::string>& arguments, const std::string& out,
            const std::string& err, const std::map<std::string, std::string>& extra) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (extra.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : extra) variables.push_back(name + "=" + value);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (const std::string& variable : variables) envp.push_back(const_cast<char*>(variable.c_str()));
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = -1;
  if (posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), envp.data()) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

std::string ProgramPath(const std::string& name) {
  const char* folder = std::getenv("MAXSIM_BIN_DIR");
  std::error_code error;
  const std::filesystem::path path =
      folder != nullptr ? std::filesystem::path(folder) / name
                        : std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / ".." / "bin" / name;
  return access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

ProgramResult RunProgram(const std::string& name, const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment) {
  const TemporaryFolder folder;
  const pid_t pid = Spawn(ProgramPath(name), arguments, folder / "out", folder / "err", environment);
  if (pid < 0) return {-1, "", name + " cannot be started"};
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {ExitCode(status), ReadAll(folder / "out"), ReadAll(folder / "err")};
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "maxsim-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ServerProcess::ServerProcess(const std::vector<std::string>& collections, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"--grpc.address", "127.0.0.1:0", "--http.address",     "127.0.0.1:0",
                                        "--backend",      "cpu",         "--server.port_file", folder_ / "ports"};
  // server.shutdown_delay gives load balancers time to notice a stop. These servers have none, so the delay is 0.
  arguments.insert(arguments.end(), {"--server.shutdown_delay", "0s"});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const std::string& collection : collections) {
    arguments.push_back("--collection");
    arguments.push_back(collection);
  }
  pid_ = Spawn(ProgramPath("maxsimd"), arguments, folder_ / "out", folder_ / "err", {});
  const absl::Time limit = absl::Now() + kStartLimit;
  while (pid_ > 0 && absl::Now() < limit) {
    if (std::filesystem::exists(folder_ / "ports")) {
      port_ = nlohmann::json::parse(ReadAll(folder_ / "ports"))["grpc_port"].get<int>();
      return;
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) pid_ = -1;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

ServerProcess::~ServerProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGTERM);
  const absl::Time limit = absl::Now() + kStopLimit;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (absl::Now() > limit) kill(pid_, SIGKILL);
    absl::SleepFor(absl::Milliseconds(10));
  }
}

std::string ServerProcess::Log() const { return ReadAll(folder_ / "out") + ReadAll(folder_ / "err"); }

}  // namespace maxsim::client
