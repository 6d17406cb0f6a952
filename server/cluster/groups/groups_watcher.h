// Reads the list of groups again and again and looks up the names in it, on a thread that may block for as long as a
// name server takes.
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
    std::string name;  // as the list has it
    absl::StatusOr<std::vector<std::string>> addresses;
  };

  std::string name;
  std::vector<Target> targets;
};

// Looks up a target, and may block meanwhile.
using Resolve = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& target)>;

// Returns the targets of the addresses of "dns:///HOST:PORT", sorted; the target itself for any other.
// UNAVAILABLE where the name has no address now.
absl::StatusOr<std::vector<std::string>> ResolveTarget(const std::string& target);

// Returns whether a target is one that has to be looked up.
bool IsName(const std::string& target);

// The class is thread-safe.
class GroupsWatcher {
 public:
  // Returns the groups, or why they cannot be read.
  using Read = std::function<absl::StatusOr<std::vector<GroupOptions>>()>;
  // Begins to read and to look up, at once and then `interval` after each time. `read` and `resolve` may still run when
  // the watcher is gone, and must own what they use. `changed` is called after each time, on the watcher's thread, and
  // not once the watcher is gone; it must not call the watcher.
  GroupsWatcher(Read read, Resolve resolve, absl::Duration interval, std::function<void()> changed);
  // Does not wait for a look-up that is under way: its thread ends when the name server has answered, and tells nobody.
  ~GroupsWatcher();
  GroupsWatcher(const GroupsWatcher&) = delete;
  GroupsWatcher& operator=(const GroupsWatcher&) = delete;

  // Returns what was read since the last call, the newest; nullopt where nothing was.
  std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> Take();

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // which the thread may outlive this with
};

}  // namespace maxsim::cluster
