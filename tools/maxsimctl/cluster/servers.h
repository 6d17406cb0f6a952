// The servers of a cluster: reads the state of a collection from the router and from every server, and makes clients
// for single servers.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/cluster/cluster_state.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl::cluster {

// Returns the state of collection `name`. `servers` has the reports of the servers, by address. A server without a
// report counts as not answering; `problems` has the reasons, by address. Pure. FAILED_PRECONDITION if the report in
// `router` is not one of a router, or if no stream orders the writes of the collection; NOT_FOUND, with the names that
// there are, if the router does not have the collection; INTERNAL for an impossible report.
absl::StatusOr<ClusterState> StateFrom(const std::string& name, const v1::GetInfoResponse& router,
                                       const std::map<std::string, v1::GetInfoResponse>& servers,
                                       const std::map<std::string, std::string>& problems);

// Reads a cluster's state, and makes clients for its servers. Not thread-safe, but the clients are. They live as long
// as this object.
class Servers {
 public:
  // `context` must outlive this object. `group_token_file` is the file with the token for the servers of the groups; ""
  // means that they take the router's token.
  Servers(Context& context, std::string group_token_file)
      : context_(context), group_token_file_(std::move(group_token_file)) {}

  // Asks the router and, at the same time, all of its servers. Errors are those of StateFrom, of the call to the
  // router, and of the token files.
  absl::StatusOr<ClusterState> Read(const std::string& name);

  // Returns the client for the server at `address`; the first call makes it.
  absl::StatusOr<client::Client*> At(const std::string& address);

 private:
  Context& context_;
  const std::string group_token_file_;
  std::map<std::string, std::unique_ptr<client::Client>> clients_;
};

}  // namespace maxsim::ctl::cluster
