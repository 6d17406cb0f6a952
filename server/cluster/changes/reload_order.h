// Decides who is to load which generation: pure functions of what the servers of a cluster report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/replica.h"
#include "server/cluster/groups/view.h"

namespace maxsim::cluster {

// The revision of a generation that no reload has named: routers tell the servers that have it to note it.
inline constexpr uint64_t kFirstRevision = 1;

// Returns the revision of a reload that begins at the wall-clock time `now`: the time in microseconds, but more than
// every revision that a server has reported, even one that does not answer any more. So the newest reload has the
// largest revision, also if a router has just started and has not heard of the last one.
uint64_t NextRevision(const View& view, const std::string& name, absl::Time now);

// A group whose replicas are to be reloaded.
struct ReloadOrder {
  std::shared_ptr<Group> group;
  Replicas replicas = {};  // in the order in which to reload them
  size_t num_alive = 0;    // those that answer polls, and are not silent; they come first
};

// Returns the groups in the order in which to reload them at `now`, a time of MonotonicNow(). Within a group, replicas
// that do not have the generation that requests name (for example because they were restarted) come first, so that the
// others go on serving that generation in the meantime, and replicas that do not answer come last. Groups with only one
// replica that answers come after all other groups: once that replica has the new generation, no other replica of its
// group serves the old one.
std::vector<ReloadOrder> InReloadOrder(const View& view, const std::string& name, absl::Time now);

// Returns whether a server, by its report about a collection, has missed the reload with this revision that chose this
// generation. The last reload that it has carried out is an older one; or it had nothing new when another server
// decided which generation that reload means.
bool HasMissed(const v1::CollectionInfo& report, uint64_t generation, uint64_t revision);

// A replica that must be told to load the generation that requests name.
struct Behind {
  std::shared_ptr<Group> group;
  std::shared_ptr<Replica> replica;
  std::string name;         // of the collection
  uint64_t generation = 0;  // that it is to load
  uint64_t revision = 0;    // of the reload that wants it
};

// Returns the replicas that answer, and have missed the reload which made requests name a generation (HasMissed), for
// example because they were dead or cut off. A replica that has carried out a later reload is ahead, and is left alone:
// an operator reloads one server after the other. If no reload has named the
// generation, returns the replicas that have it, so that they note it; but only while every group can answer for the
// collection. Live collections have no such generation.
std::vector<Behind> FindBehind(const View& view);

}  // namespace maxsim::cluster
