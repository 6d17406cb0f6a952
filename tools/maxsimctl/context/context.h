// What every command shares: global options, the connection, and how errors and JSON are written.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  bool use_color() const;

  // Returns the client for --server, which the first call makes. Errors of the calls made through it go through
  // AddAdvice.
  absl::StatusOr<client::Client*> Connect();

  // Adds to a failed call's status what its user can do about it.
  absl::Status AddAdvice(const absl::Status& status) const;

  // Does what AddAdvice does, for the calls that load, make or change whole collections, whose deadline is another.
  absl::Status AddAdminAdvice(const absl::Status& status) const;

  // Returns the collection of this name as the server describes it; an empty name means the only one it has. NOT_FOUND,
  // and INVALID_ARGUMENT for an empty name where it has several, list the names it does have.
  absl::StatusOr<v1::CollectionInfo> FindCollection(const std::string& name);

  void Print(const Json& json) const;

 private:
  absl::Status AddAdvice(const absl::Status& status, absl::Duration deadline) const;

  const Environment& environment_;
  std::unique_ptr<client::Client> client_;
};

// Returns a float as the shortest decimal that reads back as the same float (0.1, not 0.10000000149011612).
double Shortest(float value);

// Returns the payload as JSON, or as a JSON string when it is no object, or one that is nested too deep; null when
// empty.
Json PayloadJson(const std::string& payload);

// Returns the payload's string field `name`, or "".
std::string PayloadText(const std::string& payload, const char* name);

}  // namespace maxsim::ctl
