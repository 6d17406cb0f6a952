#include "server/cluster/groups/groups_watcher.h"

#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/thread_name.h"

namespace maxsim::cluster {

struct GroupsWatcher::State {
  // These three do not change after the start.
  Read read;
  Resolve resolve;
  absl::Duration interval;

  Mutex mutex;
  ConditionVariable stop;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::function<void()> changed ABSL_GUARDED_BY(mutex);
  std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> found ABSL_GUARDED_BY(mutex);
};

namespace {

using Found = absl::StatusOr<std::vector<ResolvedGroup>>;

// Returns the addresses of a target in a list of groups; null if the list does not have the target.
const std::vector<std::string>* AddressesIn(const std::vector<ResolvedGroup>& groups, const std::string& group_name,
                                            const std::string& target_name) {
  for (const ResolvedGroup& group : groups) {
    if (group.name != group_name) continue;
    for (const ResolvedGroup::Target& target : group.targets) {
      if (target.name == target_name && target.addresses.ok()) return &*target.addresses;
    }
  }
  return nullptr;
}

// Merges the results of two rounds. The caller has not taken the first result. If the second round could not read the
// list, returns the first result. If the second round could not look up a target, keeps the target's addresses of the
// first round.
Found Merge(Found first, Found second) {
  if (!first.ok()) return second;
  if (!second.ok()) return first;
  for (ResolvedGroup& group : *second) {
    for (ResolvedGroup::Target& target : group.targets) {
      if (target.addresses.ok()) continue;
      const std::vector<std::string>* known = AddressesIn(*first, group.name, target.name);
      if (known != nullptr) target.addresses = *known;
    }
  }
  return second;
}

}  // namespace

bool IsName(const std::string& target) { return absl::StartsWith(target, "dns:///"); }

GroupsWatcher::GroupsWatcher(Read read, Resolve resolve, absl::Duration interval, std::function<void()> changed)
    : state_(std::make_shared<State>()) {
  state_->read = std::move(read);
  state_->resolve = std::move(resolve);
  state_->interval = interval;
  {
    const MutexLock lock(&state_->mutex);
    state_->changed = std::move(changed);
  }
  std::thread([state = state_] { Run(state); }).detach();
}

GroupsWatcher::~GroupsWatcher() {
  const MutexLock lock(&state_->mutex);
  state_->stopped = true;
  state_->stop.NotifyAll();
}

std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> GroupsWatcher::Take() {
  const MutexLock lock(&state_->mutex);
  return std::exchange(state_->found, std::nullopt);
}

// Reads the list of groups and looks up the addresses of each target.
absl::StatusOr<std::vector<ResolvedGroup>> GroupsWatcher::LookUp(const State& state) {
  const absl::StatusOr<std::vector<GroupOptions>> groups = state.read();
  if (!groups.ok()) return groups.status();
  std::vector<ResolvedGroup> resolved;
  for (const GroupOptions& group : *groups) {
    ResolvedGroup& made = resolved.emplace_back(ResolvedGroup{.name = group.name, .targets = {}});
    for (const std::string& target : group.targets) made.targets.push_back({target, state.resolve(target)});
  }
  return resolved;
}

void GroupsWatcher::Run(const std::shared_ptr<State>& state) {
  NameThisThread("groups_watcher");
  MutexLock lock(&state->mutex);
  while (!state->stopped) {
    lock.Unlock();
    Found found = Guarded([&] { return LookUp(*state); });
    lock.Lock();
    if (state->stopped) return;
    if (state->found.has_value()) found = Merge(*std::move(state->found), std::move(found));
    state->found = std::move(found);
    state->changed();
    const absl::Time next = MonotonicNow() + state->interval;
    while (!state->stopped) {
      const absl::Duration left = next - MonotonicNow();
      if (left <= absl::ZeroDuration()) break;
      state->stop.WaitFor(lock, absl::ToChronoNanoseconds(left));
    }
  }
}

}  // namespace maxsim::cluster
