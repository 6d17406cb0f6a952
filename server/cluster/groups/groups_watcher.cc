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
  // Constant from the start on.
  Read read;
  Resolve resolve;
  absl::Duration interval;

  Mutex mutex;
  ConditionVariable stop;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::function<void()> changed ABSL_GUARDED_BY(mutex);
  std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> found ABSL_GUARDED_BY(mutex);
};

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

void GroupsWatcher::Run(const std::shared_ptr<State>& state) {
  NameThisThread("groups_watcher");
  MutexLock lock(&state->mutex);
  while (!state->stopped) {
    lock.Unlock();
    absl::StatusOr<std::vector<ResolvedGroup>> found = Guarded([&]() -> absl::StatusOr<std::vector<ResolvedGroup>> {
      const absl::StatusOr<std::vector<GroupOptions>> groups = state->read();
      if (!groups.ok()) return groups.status();
      std::vector<ResolvedGroup> resolved;
      for (const GroupOptions& group : *groups) {
        ResolvedGroup& made = resolved.emplace_back(ResolvedGroup{.name = group.name, .targets = {}});
        for (const std::string& target : group.targets) made.targets.push_back({target, state->resolve(target)});
      }
      return resolved;
    });
    lock.Lock();
    if (state->stopped) return;
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
