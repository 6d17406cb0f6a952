#include "tools/maxsimctl/cluster/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "tools/maxsimctl/cluster/sources.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::FormatSlotRange;
using collection::SlotRange;

// A server that does not hold the right slots, and the slots that it should hold. If `slots` is nullopt, the server
// should not have the collection.
struct Change {
  const ReplicaState* replica;
  std::optional<SlotRange> slots;
};

// The servers and groups that running steps work on, and how many steps read from each server.
struct Work {
  std::set<std::string> groups;
  std::set<std::string> addresses;
  std::map<std::string, int> readers;

  void Add(const Step& step) {
    if (const auto* bootstrap = std::get_if<Bootstrap>(&step)) {
      AddCall(*bootstrap);
    } else if (const auto* trim = std::get_if<Trim>(&step)) {
      AddCall(trim->call);
    } else if (const auto* unload = std::get_if<Unload>(&step)) {
      groups.insert(unload->group);
      addresses.insert(unload->address);
    }
  }
  void AddCall(const Bootstrap& call) {
    groups.insert(call.group);
    addresses.insert(call.address);
    for (const std::string& source : call.sources) ++readers[source];
  }
  bool MayRead(const ReplicaState& replica) const {
    const auto found = readers.find(replica.address);
    return !addresses.contains(replica.address) && (found == readers.end() || found->second < kMaxReadersPerSource);
  }
};

class Planner {
 public:
  Planner(const ClusterState& state, const Owners& wanted, const PlanOptions& options, const Progress& progress,
          const std::vector<Step>& running)
      : state_(state), wanted_(wanted), options_(options), progress_(progress), is_idle_(running.empty()) {
    for (const Step& step : running) {
      work_.Add(step);
      is_bootstrapping_ = is_bootstrapping_ || std::holds_alternative<Bootstrap>(step);
    }
  }

  absl::StatusOr<std::vector<Step>> Next() {
    absl::StatusOr<Owners> owners = CurrentOwners(state_);
    if (!owners.ok()) return owners.status();
    owners_ = *std::move(owners);
    if (absl::Status status = CheckGroups(); !status.ok()) return status;
    return owners_ == wanted_ ? Finish() : Move();
  }

  // Returns the step that gives the server the slots of its group by `owners`.
  absl::StatusOr<Bootstrap> Replace(const GroupState& group, const ReplicaState& replica, Owners owners) {
    owners_ = std::move(owners);
    const std::optional<SlotRange> slots = SlotsOf(owners_, group.name);
    if (!slots.has_value()) {
      return absl::FailedPreconditionError(
          Cat("group ", group.name, " of ", replica.address, " answers for no slots; to give it some, use add-group"));
    }
    if (!replica.answers()) {
      return absl::FailedPreconditionError(Cat(NameOf(replica, group.name), " ", replica.problem));
    }
    std::vector<Step> steps;
    may_read_itself_ = false;
    if (absl::Status status = AddGroup(group, {{&replica, slots}}, /*is_trim=*/false, steps); !status.ok()) {
      return status;
    }
    if (!steps.empty()) return std::get<Bootstrap>(steps.front());
    return absl::FailedPreconditionError(Cat("the router does not use ",
                                             std::get<WaitForReplica>(waits_.front()).address,
                                             " yet, which must answer for the group meanwhile; try again later"));
  }

 private:
  using Steps = absl::StatusOr<std::vector<Step>>;

  absl::Status CheckGroups() const {
    for (const Owner& owner : wanted_) {
      const GroupState* const group = state_.FindGroup(owner.group);
      if (group == nullptr) {
        const auto name = [](std::string* out, const GroupState& one) { out->append(one.name); };
        return Invalid("no group ", Quote(owner.group), "; the router has ", absl::StrJoin(state_.groups, ", ", name));
      }
      const auto answers = [](const ReplicaState& replica) { return replica.answers(); };
      if (std::any_of(group->replicas.begin(), group->replicas.end(), answers)) continue;
      std::string problems;
      for (const ReplicaState& replica : group->replicas) {
        problems += Cat(problems.empty() ? ": " : "; ", replica.address, " ", replica.problem);
      }
      return absl::FailedPreconditionError(Cat("no server of group ", owner.group, " answers", problems));
    }
    return absl::OkStatus();
  }

  // Returns whether routers may use the layout's revision everywhere.
  bool IsSettled() const { return progress_.settled_revision >= state_.revision; }

  // Returns a step that comes alone, or no step yet if others are running.
  Steps Alone(Step step) const { return is_idle_ ? std::vector<Step>{std::move(step)} : std::vector<Step>{}; }

  Steps AloneWait(bool is_before_layout) const {
    return Alone(
        WaitForRouters{.revision = state_.revision, .grace = options_.grace, .is_before_layout = is_before_layout});
  }

  Steps AloneSetLayout(const Owners& owners) const {
    const ReplicaState* best = nullptr;
    for (const GroupState& group : state_.groups) {
      for (const ReplicaState& replica : group.replicas) {
        if (!replica.answers() || !replica.held.has_value()) continue;
        const auto rank = [](const ReplicaState& one) { return std::make_pair(!one.is_ready, one.lag); };
        if (best == nullptr || rank(replica) < rank(*best)) best = &replica;
      }
    }
    if (best == nullptr) return absl::FailedPreconditionError("no server that answers has the collection");
    return Alone(SetLayout{.address = best->address, .expected_revision = state_.revision, .owners = owners});
  }

  // Steps 1 to 3 of plan.h.
  Steps Move() {
    // A move needs a layout. Without one, a group owns the slots that it holds, and routers refuse two groups with the
    // same slots.
    if (state_.revision == 0) return AloneSetLayout(owners_);
    if (!IsSettled()) return AloneWait(/*is_before_layout=*/false);
    std::vector<Step> steps;
    for (const Owner& owner : wanted_) {
      const std::optional<SlotRange> now = SlotsOf(owners_, owner.group);
      const SlotRange needed = now.has_value() ? Hull(*now, owner.slots) : owner.slots;
      if (absl::Status status = AddLacking(owner.group, needed, steps); !status.ok()) return status;
    }
    if (!is_idle_ || !steps.empty() || !waits_.empty()) return WithWait(std::move(steps));
    if (!progress_.is_ready_for_layout) return AloneWait(/*is_before_layout=*/true);
    return AloneSetLayout(wanted_);
  }

  // Step 4 of plan.h, when the wanted layout is in force.
  Steps Finish() {
    std::vector<Step> steps;
    for (const Owner& owner : wanted_) {
      if (absl::Status status = AddLacking(owner.group, owner.slots, steps); !status.ok()) return status;
    }
    if (is_bootstrapping_ || !steps.empty() || !waits_.empty()) return WithWait(std::move(steps));
    std::map<const GroupState*, std::vector<Change>> changes;
    for (const GroupState& group : state_.groups) {
      const std::optional<SlotRange> slots = SlotsOf(wanted_, group.name);
      for (const ReplicaState& replica : group.replicas) {
        if (replica.answers() && replica.held.has_value() && replica.held != slots) {
          changes[&group].push_back({&replica, slots});
        }
      }
    }
    if (changes.empty()) return std::vector<Step>{};
    if (!IsSettled()) return AloneWait(/*is_before_layout=*/false);
    for (const GroupState& group : state_.groups) {
      if (absl::Status status = AddGroup(group, changes[&group], /*is_trim=*/true, steps); !status.ok()) return status;
    }
    return WithWait(std::move(steps));
  }

  // Returns `steps`. If it is empty and no step is running, returns instead the first wait of waits_, if there is one.
  Steps WithWait(std::vector<Step> steps) {
    if (steps.empty() && is_idle_ && !waits_.empty()) steps.push_back(std::move(waits_.front()));
    return steps;
  }

  // Adds a step for a server of the group that lacks some of the slots.
  absl::Status AddLacking(const std::string& name, const SlotRange& slots, std::vector<Step>& steps) {
    const GroupState& group = *state_.FindGroup(name);  // CheckGroups has found it
    std::vector<Change> changes;
    for (const ReplicaState& replica : group.replicas) {
      if (replica.answers() && !replica.Holds(slots)) changes.push_back({&replica, slots});
    }
    return AddGroup(group, std::move(changes), /*is_trim=*/false, steps);
  }

  // Returns whether the server holds all slots for which its group answers, so that requests may depend on it.
  bool CouldServe(const GroupState& group, const ReplicaState& replica) const {
    const std::optional<SlotRange> slots = SlotsOf(owners_, group.name);
    return slots.has_value() && replica.answers() && replica.Holds(*slots);
  }

  // Adds the step for one of these changes, unless a running step works on a server of the group. If another server of
  // the group must become ready first, adds a wait for that server to waits_ instead.
  absl::Status AddGroup(const GroupState& group, std::vector<Change> changes, bool is_trim, std::vector<Step>& steps) {
    if (changes.empty() || work_.groups.contains(group.name)) return absl::OkStatus();
    // A server is left alone while another one reads from it.
    std::erase_if(changes, [&](const Change& change) { return work_.readers.contains(change.replica->address); });
    if (changes.empty()) return absl::OkStatus();
    // Changes servers on which no request depends first: they may serve while the other servers are changed.
    const auto rank = [&](const Change& change) {
      return std::make_pair(CouldServe(group, *change.replica), change.replica->is_ready);
    };
    std::stable_sort(changes.begin(), changes.end(),
                     [&](const Change& a, const Change& b) { return rank(a) < rank(b); });
    const Change& change = changes.front();
    const ReplicaState& replica = *change.replica;
    if (CouldServe(group, replica) && !options_.allow_gaps) {
      const ReplicaState* other = nullptr;
      for (const ReplicaState& one : group.replicas) {
        if (&one == &replica || !CouldServe(group, one)) continue;
        if (other == nullptr || one.is_ready) other = &one;
      }
      if (other == nullptr) return OnlyServer(group, replica);
      if (!other->is_ready) {
        waits_.emplace_back(WaitForReplica{.group = group.name, .address = other->address});
        return absl::OkStatus();
      }
    }
    if (!change.slots.has_value()) {
      Begin(Unload{.group = group.name, .address = replica.address}, steps);
      return absl::OkStatus();
    }
    absl::StatusOr<std::optional<Bootstrap>> call = MakeCall(group, replica, *change.slots, steps.empty());
    if (!call.ok()) return call.status();
    if (!call->has_value()) return absl::OkStatus();
    if (is_trim) {
      Begin(Trim{.call = **std::move(call)}, steps);
    } else {
      Begin(**std::move(call), steps);
    }
    return absl::OkStatus();
  }

  void Begin(Step step, std::vector<Step>& steps) {
    work_.Add(step);
    steps.push_back(std::move(step));
  }

  // Returns the call that gives the server these slots. Unset if the sources are busy with other calls.
  absl::StatusOr<std::optional<Bootstrap>> MakeCall(const GroupState& group, const ReplicaState& replica,
                                                    const SlotRange& slots, bool is_first) const {
    std::optional<std::vector<const ReplicaState*>> sources = ChooseSources(
        state_, group.name, slots,
        [&](const ReplicaState& source) { return source.address != replica.address && work_.MayRead(source); });
    if (!sources.has_value() && !(is_idle_ && is_first)) return std::nullopt;
    if (!sources.has_value() && may_read_itself_) {
      // A server that is alone in its group must be its own source.
      sources = ChooseSources(state_, group.name, slots, [](const ReplicaState&) { return true; });
    }
    if (!sources.has_value()) {
      return absl::FailedPreconditionError(Cat("no servers that answer hold slots ", FormatSlotRange(slots),
                                               " together, which ", NameOf(replica, group.name), " is to hold"));
    }
    Bootstrap call{.group = group.name, .address = replica.address, .slots = slots};
    for (const ReplicaState* const source : *sources) {
      call.sources.push_back(source->address);
      call.num_bytes += source->num_bytes;
    }
    return call;
  }

  absl::Status OnlyServer(const GroupState& group, const ReplicaState& replica) const {
    return absl::FailedPreconditionError(
        Cat(replica.address, " is the only server that answers for group ", group.name, ", slots ",
            FormatSlotRange(*SlotsOf(owners_, group.name)),
            ": while it gets other slots, nothing would; add a server to the group, or accept it with --allow-gaps"));
  }

  const ClusterState& state_;
  const Owners& wanted_;
  const PlanOptions& options_;
  const Progress& progress_;
  const bool is_idle_;             // nothing is running
  bool is_bootstrapping_ = false;  // a Bootstrap is running
  bool may_read_itself_ = true;    // a server may be its own source
  Work work_;
  Owners owners_;
  std::vector<Step> waits_;
};

}  // namespace

absl::StatusOr<std::vector<Step>> NextSteps(const ClusterState& state, const Owners& wanted, const PlanOptions& options,
                                            const Progress& progress, const std::vector<Step>& running) {
  return Planner(state, wanted, options, progress, running).Next();
}

std::string WhatIsMissing(const Step& step, const ClusterState& state, const Owners& wanted) {
  if (const auto* wait = std::get_if<WaitForReplica>(&step)) {
    const GroupState* const group = state.FindGroup(wait->group);
    const ReplicaState* const replica = group == nullptr ? nullptr : group->FindReplica(wait->address);
    if (replica == nullptr)
      return Cat("the router has no server ", wait->address, " in group ", wait->group, " any more");
    return replica->is_ready ? "" : Cat(NameOf(*replica, wait->group), " is ", replica->state);
  }
  const auto* wait = std::get_if<WaitForRouters>(&step);
  if (wait == nullptr) return "";
  if (state.router_revision < wait->revision) return Cat("the router uses revision ", state.router_revision);
  if (!wait->is_before_layout) return "";
  for (const Owner& owner : wanted) {
    const GroupState* const group = state.FindGroup(owner.group);
    if (group == nullptr) return Cat("the router has no group ", owner.group, " any more");
    const bool is_any_ready = std::any_of(group->replicas.begin(), group->replicas.end(),
                                          [](const ReplicaState& replica) { return replica.is_ready; });
    if (!is_any_ready) return Cat("no server of group ", owner.group, " is ready at the router");
    for (const ReplicaState& replica : group->replicas) {
      if (!replica.answers()) continue;
      if (!replica.held_by_router.has_value() || !Contains(*replica.held_by_router, owner.slots)) {
        return Cat("the router does not know that ", NameOf(replica, owner.group), " holds slots ",
                   FormatSlotRange(owner.slots));
      }
    }
  }
  return "";
}

absl::StatusOr<Bootstrap> PlanReplacement(const ClusterState& state, const std::string& address,
                                          const PlanOptions& options) {
  for (size_t i = 0; i < state.groups.size(); ++i) {
    const GroupState& group = state.groups[i];
    for (size_t j = 0; j < group.replicas.size(); ++j) {
      if (group.replicas[j].address != address) continue;
      absl::StatusOr<Owners> owners = CurrentOwners(state);
      if (!owners.ok()) {
        // Without a layout, the other servers' slots show for which slots the group answers. The replaced server may
        // hold any.
        ClusterState others = state;
        others.groups[i].replicas[j].held.reset();
        owners = CurrentOwners(others);
      }
      if (!owners.ok()) return owners.status();
      return Planner(state, {}, options, {}, {}).Replace(group, group.replicas[j], *std::move(owners));
    }
  }
  return Invalid("ADDRESS: no group of the router has a server ", Quote(address),
                 "; add it to the router's list of groups first");
}

}  // namespace maxsim::ctl::cluster
