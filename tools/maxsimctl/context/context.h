// Shared by all commands: global options, the connection, and how errors and JSON are written.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "nlohmann/json.hpp"
#include "tools/maxsimctl/context/environment.h"

namespace maxsim::ctl {

using Json = nlohmann::ordered_json;

struct GlobalOptions {
  std::string server = "localhost:7070";
  std::string token_file;
  std::string client_id, client_key = client::ClientOptions().client_key;
  double timeout_seconds = 60;
  client::TlsOptions tls;
  bool json = false;
  std::string color = "auto";  // auto, always, never
};

class Context {
 public:
  explicit Context(const Environment& environment) : environment_(environment) {}

  GlobalOptions options;
  // The outcome of the command, set by the command that ran.
  absl::Status result;

  std::ostream& out() const { return environment_.out; }
  std::ostream& err() const { return environment_.err; }
  int columns() const { return environment_.columns; }
  bool out_is_terminal() const { return environment_.out_is_terminal; }
  // Returns a function that returns the value of an environment variable, or null if it is not set.
  const std::function<const char*(const char*)>& getenv() const { return environment_.getenv; }
  bool use_color() const;

  // Returns the client for --server; the first call creates it. The caller must pass errors of the client's calls to
  // AddAdvice.
  absl::StatusOr<client::Client*> Connect();

  // Makes a client for `target` with the global options. The client sends the bearer token `token`, unless that is
  // empty. During long calls it pings the server after each `keepalive_time`, so that a call ends if the server's
  // machine is gone; zero means no pings. Do not pass the client's errors to AddAdvice if `target` is not --server,
  // which AddAdvice names.
  absl::StatusOr<std::unique_ptr<client::Client>> MakeClient(const std::string& target, const std::string& token,
                                                             absl::Duration keepalive_time) const;

  // Returns the first token in the file of --token-file, or "" without that option.
  absl::StatusOr<std::string> ReadToken() const;

  // Adds advice to the status of a failed call: what the user can do about it.
  absl::Status AddAdvice(const absl::Status& status) const;

  // Does the same as AddAdvice, but for calls that load, create or change whole collections: these have a longer
  // deadline.
  absl::Status AddAdminAdvice(const absl::Status& status) const;

  // Does the same for a call whose deadline is `deadline` after its begin.
  absl::Status AddAdvice(const absl::Status& status, absl::Duration deadline) const;

  // Returns the server's description of the collection `name`. An empty name means the server's only collection, or the
  // only one that is ready. NOT_FOUND if there is none; INVALID_ARGUMENT if the name is empty and several collections
  // could be meant. The message lists the names of the collections.
  absl::StatusOr<v1::CollectionInfo> FindCollection(const std::string& name);

  void Print(const Json& json) const;

 private:
  const Environment& environment_;
  std::unique_ptr<client::Client> client_;
};

// Returns a float as the shortest decimal that reads back as the same float (0.1, not 0.10000000149011612).
double Shortest(float value);

// Returns the payload as JSON; as a JSON string if it is not an object or is nested too deeply; null if it is empty.
Json PayloadJson(const std::string& payload);

// Returns the payload's string field `name`, or "".
std::string PayloadText(const std::string& payload, const char* name);

}  // namespace maxsim::ctl
