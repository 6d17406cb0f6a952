#include "server/cluster/changes/generation_keeper.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "base/thread_name.h"
#include "server/cluster/changes/checked_admin_call.h"
#include "server/cluster/groups/rpcs.h"
#include "server/observability/logging.h"

namespace maxsim::cluster {

void GenerationKeeper::Start() {
  const MutexLock lock(&mutex_);
  if (stopping_) return;
  thread_ = std::thread([this] { Run(); });
}

void GenerationKeeper::Stop() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stop_.Request(absl::StatusCode::kUnavailable);
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void GenerationKeeper::Run() {
  NameThisThread("generations");
  MutexLock lock(&mutex_);
  while (!stopping_) {
    lock.Unlock();
    bool has_loaded = false;
    for (const Behind& behind : FindBehind(*membership_->view())) has_loaded = Tell(behind) || has_loaded;
    // The next round must not see the reports from before.
    if (has_loaded) membership_->Refresh();
    lock.Lock();
    if (!stopping_) changed_.WaitFor(lock, absl::ToChronoNanoseconds(interval_));
  }
}

bool GenerationKeeper::Tell(const Behind& behind) {
  if (stop_.stopped()) return false;
  const std::string& target = behind.replica->target();
  const Key key(behind.group->name(), target, behind.name);
  Failure& last = failures_[key];
  if (last.revision == behind.revision && MonotonicNow() < last.time + kRetryDelay) return false;
  v1::ReloadCollectionRequest request;
  request.set_name(behind.name);
  request.set_generation(behind.generation);
  request.set_revision(behind.revision);
  const auto response =
      CallChecked(*behind.group, *behind.replica, kReloadRpc, request, {.stop = &stop_}, membership_->metrics());
  std::string error(response.status().message());
  // An earlier version does not know revisions, and has loaded what is published.
  if (response.ok() && response->collection().reload_revision() < behind.revision) {
    error = "the server knows no revisions of reloads: upgrade it";
  }
  if (error.empty()) {
    failures_.erase(key);
    // A replica that had the generation only notes it now.
    if (response->changed()) {
      log::Write(spdlog::level::info, "replica_reloaded",
                 {{"name", behind.name},
                  {"group", behind.group->name()},
                  {"replica", target},
                  {"generation", behind.generation}});
    }
    return true;
  }
  if (error != last.error) {
    log::Write(spdlog::level::warn, "replica_not_reloaded",
               {{"name", behind.name},
                {"group", behind.group->name()},
                {"replica", target},
                {"generation", behind.generation},
                {"error", error}});
  }
  last = {.revision = behind.revision, .time = MonotonicNow(), .error = std::move(error)};
  return false;
}

}  // namespace maxsim::cluster
