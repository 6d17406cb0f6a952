// The state of one collection in a cluster, as the commands of `maxsimctl cluster` see it: which groups there are,
// which slots each server holds, and which group answers for which slots. Plain data and pure functions: no network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/slots.h"

namespace maxsim::ctl::cluster {

// A group of servers, and the slots for which it answers.
struct Owner {
  std::string group;
  collection::SlotRange slots;

  friend bool operator==(const Owner&, const Owner&) = default;
};

// The owners of all slots, in the order of their slots. Each slot has one owner, and each group occurs at most once.
using Owners = std::vector<Owner>;

// One server of a group, as the server itself and the router report it.
struct ReplicaState {
  std::string address;  // host:port
  // Why no step can work on the server now, such as "does not answer". "" if it answers and has loaded its collections.
  std::string problem = {};
  // The slots of the collection that the server holds. Unset if it does not have the collection. If the server does not
  // answer, these are the slots that it last reported to the router.
  std::optional<collection::SlotRange> held = {};
  // The slots that the server holds according to the router. Unset if the router has no report of the collection there.
  std::optional<collection::SlotRange> held_by_router = {};
  // Whether the router knows the server's slots and sends it requests for this collection. Also true if the router
  // would do so, but the server's group answers for no slots.
  bool is_ready = false;
  std::string state = {};  // in words, for people: "ready", "left out: REASON"
  uint64_t sequence = 0;   // of the last write that the server has applied
  uint64_t lag = 0;        // writes that the server has not applied yet
  uint64_t num_bytes = 0;  // of the collection on the server's disk, about; 0 if the server does not have it

  bool answers() const { return problem.empty(); }
  // Returns whether the server holds all of these slots.
  bool Holds(const collection::SlotRange& slots) const;
};

struct GroupState {
  std::string name;
  std::vector<ReplicaState> replicas;

  // Returns the server at this address, or null.
  const ReplicaState* FindReplica(std::string_view address) const;
};

struct ClusterState {
  std::vector<GroupState> groups;  // in the order of the router's configuration
  // The layout with the highest revision that any server reports. A revision of 0 means that the collection has none.
  uint64_t revision = 0;
  Owners owners = {};
  uint64_t router_revision = 0;  // of the layout that the router uses

  // Returns the group of this name, or null.
  const GroupState* FindGroup(std::string_view name) const;
};

// Returns whether `outer` has all slots of `inner`.
bool Contains(const collection::SlotRange& outer, const collection::SlotRange& inner);

// Returns the smallest range that has the slots of both.
collection::SlotRange Hull(const collection::SlotRange& a, const collection::SlotRange& b);

// Returns the slots for which a group answers. Unset if it answers for none.
std::optional<collection::SlotRange> SlotsOf(const Owners& owners, std::string_view group);

// Returns OK if each slot has one owner and each group occurs at most once (see Owners). Otherwise returns INTERNAL,
// which says what is wrong. For layouts that a server reports.
absl::Status CheckOwners(const Owners& owners);

// Returns the owners of the slots. If the collection has no layout, derives them from what the groups hold.
// FAILED_PRECONDITION, naming the groups, if it has no layout and two servers of a group hold different slots, or the
// groups together do not hold each slot exactly once.
absl::StatusOr<Owners> CurrentOwners(const ClusterState& state);

// Returns "10.0.0.2:7070 (g1)", for messages.
std::string NameOf(const ReplicaState& replica, std::string_view group);

}  // namespace maxsim::ctl::cluster
