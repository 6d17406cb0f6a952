// A simulated cluster, on which tests carry out the steps of plans (tools/maxsimctl/cluster/plan.h). It checks that
// every step is allowed, and that all slots are served all the time, whichever layout a router still uses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "collection/slots.h"
#include "gtest/gtest.h"
#include "tools/maxsimctl/cluster/plan.h"
#include "tools/maxsimctl/cluster/plan_text.h"

namespace maxsim::ctl::cluster {

// Returns a cluster with groups g0, g1, ... Group i has num_servers[i] servers: g<i>a, g<i>b, ... The servers of the
// groups in `owners` hold their owner's slots, at 1 KiB per slot. The other groups hold nothing.
inline ClusterState MakeCluster(const std::vector<int>& num_servers, const Owners& owners, uint64_t revision = 0) {
  ClusterState state;
  for (size_t i = 0; i < num_servers.size(); ++i) {
    GroupState& group = state.groups.emplace_back(GroupState{.name = "g" + std::to_string(i), .replicas = {}});
    const std::optional<collection::SlotRange> slots = SlotsOf(owners, group.name);
    for (int k = 0; k < num_servers[i]; ++k) {
      ReplicaState& replica = group.replicas.emplace_back(
          ReplicaState{.address = group.name + static_cast<char>('a' + k), .state = "ready"});
      replica.held = replica.held_by_router = slots;
      replica.is_ready = slots.has_value();
      replica.num_bytes = slots.has_value() ? 1024 * static_cast<uint64_t>(slots->size()) : 0;
    }
  }
  state.revision = state.router_revision = revision;
  if (revision > 0) state.owners = owners;
  return state;
}

// Returns equal ranges for the groups of these numbers.
inline Owners OwnersOf(const std::vector<int>& groups) {
  Owners owners;
  const auto count = static_cast<int32_t>(groups.size());
  for (int32_t i = 0; i < count; ++i) {
    owners.push_back(
        {.group = "g" + std::to_string(groups[static_cast<size_t>(i)]), .slots = collection::PartitionOf(i, count)});
  }
  return owners;
}

// Notes what a run learns from a step that has ended, as the program does.
inline void Learn(const Step& step, Progress& progress) {
  if (const auto* wait = std::get_if<WaitForRouters>(&step)) {
    progress = {.settled_revision = wait->revision, .is_ready_for_layout = wait->is_before_layout};
  } else if (std::holds_alternative<Bootstrap>(step) || std::holds_alternative<SetLayout>(step)) {
    progress.is_ready_for_layout = false;
  }
}

class ClusterWorld {
 public:
  explicit ClusterWorld(ClusterState begin) : state(std::move(begin)) {
    oldest_in_use_ = state.revision;
    layouts_[state.revision] = state.owners;
  }

  // The actual state of servers and layout. is_ready and held_by_router are what the router of the run believes.
  ClusterState state;

  // Notes that a step begins. Steps that only wait have no effect until End.
  void Begin(const Step& step) {
    if (const auto* call = CallOf(step)) {
      BeginCall(*call);
    } else if (const auto* unload = std::get_if<Unload>(&step)) {
      ExpectNoLayoutHas(unload->group);
      Take(unload->group, unload->address);
    } else {
      EXPECT_TRUE(taken_.empty()) << DescribeStep(step) << " while other steps run";
    }
    CheckServed("after the begin of " + DescribeStep(step));
  }

  // Carries out the step. `succeeds` = false simulates a failed call, which changes nothing.
  void End(const Step& step, bool succeeds = true) {
    if (const auto* call = CallOf(step)) {
      EndCall(*call, succeeds);
    } else if (const auto* unload = std::get_if<Unload>(&step)) {
      if (succeeds) Find(unload->address).held.reset();
      taken_.erase(unload->address);
    } else if (const auto* layout = std::get_if<SetLayout>(&step)) {
      EndSetLayout(*layout, succeeds);
    } else if (const auto* routers = std::get_if<WaitForRouters>(&step)) {
      RefreshRouter();
      oldest_in_use_ = std::max(oldest_in_use_, routers->revision);
    } else {
      Find(std::get<WaitForReplica>(step).address).is_ready = true;
    }
    CheckServed("after " + DescribeStep(step));
  }

  // Simulates that the run is killed: all running steps end without any effect.
  void CutOff() {
    taken_.clear();
    readers_.clear();
  }

  // Lets the router notice what the servers hold and which layout there is.
  void RefreshRouter() {
    state.router_revision = state.revision;
    for (GroupState& group : state.groups) {
      for (ReplicaState& replica : group.replicas) {
        if (!replica.answers()) continue;
        replica.held_by_router = replica.held;
        replica.is_ready = replica.held.has_value();
      }
    }
  }

  // Expects that every layout that some router may still use is served: each owner's group has a server that answers
  // and holds the owner's slots. A server whose slots are being changed does not count, unless gaps are allowed.
  void CheckServed(const std::string& when) const {
    for (const auto& [revision, owners] : layouts_) {
      if (revision < oldest_in_use_ || revision == 0) continue;
      for (const Owner& owner : owners) {
        const GroupState* const group = state.FindGroup(owner.group);
        const bool is_served = std::any_of(group->replicas.begin(), group->replicas.end(), [&](const auto& replica) {
          return replica.answers() && replica.Holds(owner.slots) && (allows_gaps || !taken_.contains(replica.address));
        });
        EXPECT_TRUE(is_served) << when << ", no server of " << owner.group << " serves its slots of layout "
                               << revision;
      }
    }
  }

  // Returns "g0a 0-1364, g1a 1365-2729, ...": all servers that have the collection.
  std::string Held() const {
    std::string text;
    for (const GroupState& group : state.groups) {
      for (const ReplicaState& replica : group.replicas) {
        if (!replica.held.has_value()) continue;
        text += (text.empty() ? "" : ", ") + replica.address + " " + collection::FormatSlotRange(*replica.held);
      }
    }
    return text;
  }

  bool allows_gaps = false;

 private:
  static const Bootstrap* CallOf(const Step& step) {
    if (const auto* trim = std::get_if<Trim>(&step)) return &trim->call;
    return std::get_if<Bootstrap>(&step);
  }

  ReplicaState& Find(const std::string& address) {
    for (GroupState& group : state.groups) {
      for (ReplicaState& replica : group.replicas) {
        if (replica.address == address) return replica;
      }
    }
    ADD_FAILURE() << "no server " << address;
    return state.groups[0].replicas[0];
  }

  void Take(const std::string& group, const std::string& address) {
    EXPECT_TRUE(Find(address).answers()) << address << " does not answer";
    EXPECT_EQ(readers_.count(address), 0) << address << " is read from";
    for (const ReplicaState& replica : state.FindGroup(group)->replicas) {
      EXPECT_FALSE(taken_.contains(replica.address)) << replica.address << " and " << address << " at the same time";
    }
    taken_.insert(address);
  }

  void BeginCall(const Bootstrap& call) {
    std::set<int32_t> slots;
    for (const std::string& address : call.sources) {
      const ReplicaState& source = Find(address);
      EXPECT_TRUE(source.answers() && source.held.has_value()) << address << " is no source";
      EXPECT_FALSE(taken_.contains(address)) << address << " is a source, and gets other slots";
      EXPECT_TRUE(allows_gaps || address != call.address) << address << " is its own source";
      for (int32_t slot = source.held->first; slot < source.held->end; ++slot) slots.insert(slot);
    }
    for (int32_t slot = call.slots.first; slot < call.slots.end; ++slot) {
      ASSERT_TRUE(slots.contains(slot)) << "no source of " << call.address << " holds slot " << slot;
    }
    // Routers without a layout would refuse groups that hold the same slots.
    const std::optional<collection::SlotRange> own = SlotsOf(*CurrentOwners(state), call.group);
    EXPECT_TRUE(oldest_in_use_ > 0 || own == call.slots) << call.address << " gets slots without a layout";
    Take(call.group, call.address);
    for (const std::string& address : call.sources) {
      if (address != call.address) readers_.insert(address);
      EXPECT_LE(readers_.count(address), static_cast<size_t>(kMaxReadersPerSource)) << address;
    }
  }

  void EndCall(const Bootstrap& call, bool succeeds) {
    if (succeeds) {
      ReplicaState& replica = Find(call.address);
      replica.held = call.slots;
      replica.num_bytes = 1024 * static_cast<uint64_t>(call.slots.size());
      replica.is_ready = false;  // until the router polls it
    }
    taken_.erase(call.address);
    for (const std::string& address : call.sources) {
      if (const auto found = readers_.find(address); found != readers_.end()) readers_.erase(found);
    }
  }

  void EndSetLayout(const SetLayout& step, bool succeeds) {
    EXPECT_EQ(step.expected_revision, state.revision);
    if (!succeeds) return;
    EXPECT_TRUE(CheckOwners(step.owners).ok());
    // The first layout says what routers go by anyway.
    if (state.revision == 0) {
      EXPECT_EQ(step.owners, *CurrentOwners(state));
    }
    state.revision += 1;
    state.owners = step.owners;
    layouts_[state.revision] = step.owners;
  }

  void ExpectNoLayoutHas(const std::string& group) const {
    for (const auto& [revision, owners] : layouts_) {
      if (revision < oldest_in_use_) continue;
      EXPECT_FALSE(SlotsOf(owners, group).has_value()) << group << " is unloaded, but layout " << revision << " has it";
    }
  }

  std::map<uint64_t, Owners> layouts_;  // all that were ever set, by revision
  uint64_t oldest_in_use_;              // the oldest revision that a router may still use
  std::set<std::string> taken_;         // servers that get other slots
  std::multiset<std::string> readers_;  // servers from which others read, once for each reader
};

}  // namespace maxsim::ctl::cluster
