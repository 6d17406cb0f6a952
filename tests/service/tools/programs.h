// Runs the built programs: maxsimd, maxsimctl, maxsim-shard.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace maxsim::client {

// Returns the path of the program `name` in $MAXSIM_BIN_DIR or, by default, in bin/ beside this test's folder. Returns
// "" if there is no such program.
std::string ProgramPath(const std::string& name);

struct ProgramResult {
  int exit_code = -1;  // if a signal ended the program: 128 + the signal's number
  std::string out, err;
};

// Runs a program to its end. Its environment is that of the test plus `environment`.
ProgramResult RunProgram(const std::string& name, const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment = {});

// Makes a folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Runs maxsimd on free ports of this machine, on the CPU backend. The destructor stops it with SIGTERM.
class ServerProcess {
 public:
  // Starts maxsimd and waits until it is ready. `collections` are NAME=PATH; `flags` are further flags of maxsimd.
  explicit ServerProcess(const std::vector<std::string>& collections, const std::vector<std::string>& flags = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool ready() const { return port_ > 0; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string Log() const;

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace maxsim::client
