// Regularly rereads the list of groups and looks up the names in it. Uses a thread of its own, since a name server may
// take long to answer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/cluster/groups/cluster_options.h"

namespace maxsim::cluster {

// A group with the addresses of its targets.
struct ResolvedGroup {
  struct Target {
    std::string name;  // as in the list
    absl::StatusOr<std::vector<std::string>> addresses;
  };

  std::string name;
  std::vector<Target> targets;
};

// Looks up a target; may block.
using Resolve = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& target)>;

// Returns the addresses of "dns:///HOST:PORT" as sorted targets; for any other target, the target itself. Returns
// UNAVAILABLE if the name has no address now.
absl::StatusOr<std::vector<std::string>> ResolveTarget(const std::string& target);

// Returns whether a target is a name that must be looked up ("dns:///HOST:PORT").
bool IsName(const std::string& target);

// The class is thread-safe.
class GroupsWatcher {
 public:
  // Returns the groups, or why they cannot be read.
  using Read = std::function<absl::StatusOr<std::vector<GroupOptions>>()>;
  // Starts a thread that reads the list and looks up its names, and does so again `interval` after each round. `read`
  // and `resolve` may still run after the watcher is destroyed, so they must own what they use. `changed` is called
  // after each round, on the watcher's thread, but never after destruction. It must not call the watcher.
  GroupsWatcher(Read read, Resolve resolve, absl::Duration interval, std::function<void()> changed);
  // Does not wait for a look-up in progress: the thread ends once the name server answers, and the result is dropped.
  ~GroupsWatcher();
  GroupsWatcher(const GroupsWatcher&) = delete;
  GroupsWatcher& operator=(const GroupsWatcher&) = delete;

  // Returns the newest list, or why it could not be read; nullopt if no round has ended since the last call of Take. If
  // the newest round failed to read the list or to look up a name, uses the result of an earlier round since that call,
  // if there is one.
  std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> Take();

 private:
  struct State;
  static absl::StatusOr<std::vector<ResolvedGroup>> LookUp(const State& state);
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive the watcher
};

}  // namespace maxsim::cluster
