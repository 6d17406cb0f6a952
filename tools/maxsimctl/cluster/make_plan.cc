// MakePlan: carries out the steps of a plan on a copy of the cluster's state.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "tools/maxsimctl/cluster/plan.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::SlotRange;

ReplicaState* FindReplica(ClusterState& state, const std::string& address) {
  for (GroupState& group : state.groups) {
    for (ReplicaState& replica : group.replicas) {
      if (replica.address == address) return &replica;
    }
  }
  return nullptr;
}

// Returns the average number of bytes of one slot. Ids are spread evenly over the slots by their hashes.
double BytesPerSlot(const ClusterState& state) {
  double bytes = 0;
  int64_t num_slots = 0;
  for (const GroupState& group : state.groups) {
    for (const ReplicaState& replica : group.replicas) {
      if (!replica.held.has_value() || replica.num_bytes == 0) continue;
      bytes += static_cast<double>(replica.num_bytes);
      num_slots += replica.held->size();
    }
  }
  return num_slots == 0 ? 0 : bytes / static_cast<double>(num_slots);
}

class ClusterModel {
 public:
  explicit ClusterModel(const ClusterState& begin) : state(begin), bytes_per_slot_(BytesPerSlot(begin)) {}

  void Apply(const Step& step) {
    std::visit([this](const auto& one) { Do(one); }, step);
  }

  ClusterState state;
  Progress progress;

 private:
  void Do(const Bootstrap& step) {
    SetHeld(step.address, step.slots);
    progress.is_ready_for_layout = false;
  }
  void Do(const Trim& step) { SetHeld(step.call.address, step.call.slots); }
  void Do(const Unload& step) { SetHeld(step.address, std::nullopt); }
  void Do(const SetLayout& step) {
    state.owners = step.owners;
    state.revision = step.expected_revision + 1;
    progress.is_ready_for_layout = false;
  }
  void Do(const WaitForRouters& step) {
    state.router_revision = step.revision;
    progress.settled_revision = step.revision;
    progress.is_ready_for_layout = step.is_before_layout;
  }
  void Do(const WaitForReplica& step) {
    if (ReplicaState* const replica = FindReplica(state, step.address)) replica->is_ready = true;
  }

  void SetHeld(const std::string& address, const std::optional<SlotRange>& slots) {
    ReplicaState* const replica = FindReplica(state, address);
    if (replica == nullptr) return;
    replica->held = replica->held_by_router = slots;
    replica->is_ready = slots.has_value();
    replica->num_bytes = slots.has_value() ? static_cast<uint64_t>(bytes_per_slot_ * slots->size()) : 0;
  }

  const double bytes_per_slot_;
};

}  // namespace

absl::StatusOr<std::vector<PlannedStep>> MakePlan(const ClusterState& state, const Owners& wanted,
                                                  const PlanOptions& options) {
  size_t num_servers = 0;
  for (const GroupState& group : state.groups) num_servers += group.replicas.size();
  // Ends the loop even if the plan never does. A plan waits for, changes and trims each server at most once, and has
  // less than 10 other steps.
  const size_t max_rounds = 3 * num_servers + 10;
  ClusterModel model(state);
  std::vector<PlannedStep> plan;
  for (size_t round = 0; round < max_rounds; ++round) {
    absl::StatusOr<std::vector<Step>> steps = NextSteps(model.state, wanted, options, model.progress, {});
    if (!steps.ok()) return steps.status();
    if (steps->empty()) return plan;
    for (Step& step : *steps) {
      model.Apply(step);
      plan.push_back({.round = static_cast<int>(round), .step = std::move(step)});
    }
  }
  return absl::InternalError(Cat("no plan ends within ", max_rounds, " rounds"));
}

}  // namespace maxsim::ctl::cluster
