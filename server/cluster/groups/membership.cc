#include "server/cluster/groups/membership.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/thread_name.h"
#include "client/status.h"
#include "grpcpp/client_context.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/check_info.h"
#include "server/observability/logging.h"

namespace maxsim::cluster {
namespace {

// Time limit of a poll. A server answers GetInfo within a millisecond, so a server that does not answer within this
// time is down.
constexpr absl::Duration kPollTimeout = absl::Seconds(1);

// A server counts as down after this many timed-out polls in a row, or after one refused connection.
constexpr int kMaxPollFailures = 2;

// How long RefreshThen waits for replicas that do not answer.
constexpr absl::Duration kRefreshTime = absl::Milliseconds(500);

// How long the destructor waits for threads that still hold a replica.
constexpr absl::Duration kLetGoTime = absl::Seconds(1);

// How long to collect answers of polls before a new view is made from them, so that answers that arrive together cause
// only one new view.
constexpr auto kGatherTime = std::chrono::milliseconds(10);

}  // namespace

Membership::Membership(ClusterOptions options, client::ClientOptions to_replicas, ClusterMetrics* metrics,
                       Resolve resolve, absl::Duration watch_interval)
    : options_(std::move(options)),
      to_replicas_(std::move(to_replicas)),
      metadata_(to_replicas_),
      metrics_(metrics),
      resolve_(std::move(resolve)),
      watch_interval_(watch_interval),
      lags_({.writes = options_.max_lag_writes, .time = absl::Seconds(options_.max_lag_seconds)}),
      reporter_(metrics) {}

Membership::~Membership() {
  Stop();
  {
    MutexLock lock(&mutex_);
    while (!polls_.empty()) changed_.Wait(lock);  // they end at kPollTimeout at the latest
    view_ = nullptr;
  }
  Replicas replicas;
  for (const std::shared_ptr<Group>& group : groups_) {
    for (std::shared_ptr<Replica>& replica : group->replicas()) replicas.push_back(std::move(replica));
    group->SetReplicas({});
  }
  // The last reference to a connection must not be dropped on one of gRPC's threads, which would then wait for its own
  // end. gRPC's threads that have just ended calls drop their references within moments, so this thread waits until
  // they have.
  const absl::Time end = MonotonicNow() + kLetGoTime;
  const auto wait_for = [end](const auto& pointers) {
    for (const auto& pointer : pointers) {
      while (pointer.use_count() > 1 && MonotonicNow() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait_for(groups_);
  wait_for(replicas);
}

void Membership::Stop() {
  std::vector<absl::AnyInvocable<void()>> waiting;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    waiting.swap(waiting_);
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  watcher_.reset();
  for (absl::AnyInvocable<void()>& then : waiting) then();
}

absl::Status Membership::Start() {
  absl::StatusOr<std::vector<GroupOptions>> groups = ReadGroups(options_);
  if (!groups.ok()) return groups.status();
  std::vector<ResolvedGroup> known;
  for (const GroupOptions& group : *groups) {
    ResolvedGroup& made = known.emplace_back(ResolvedGroup{.name = group.name, .targets = {}});
    for (const std::string& target : group.targets) {
      if (!IsName(target)) made.targets.push_back({target, std::vector<std::string>{target}});
    }
  }
  ApplyGroups(known);
  PublishView();
  watcher_ =
      std::make_unique<GroupsWatcher>([options = options_] { return ReadGroups(options); }, resolve_, watch_interval_,
                                      [this] {
                                        const MutexLock lock(&mutex_);
                                        has_groups_ = true;
                                        changed_.NotifyAll();
                                      });
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

std::shared_ptr<const View> Membership::view() const {
  const MutexLock lock(&mutex_);
  return view_;
}

void Membership::RefreshThen(absl::AnyInvocable<void()> then) {
  {
    const MutexLock lock(&mutex_);
    if (!stopping_) {
      waiting_.push_back(std::move(then));
      then = nullptr;
    }
  }
  if (then != nullptr) return then();
  changed_.NotifyAll();
}

void Membership::Refresh() {
  struct {
    Mutex mutex;
    ConditionVariable changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
  } waiter;
  RefreshThen([&waiter] {
    const MutexLock lock(&waiter.mutex);
    waiter.done = true;
    waiter.changed.NotifyAll();
  });
  MutexLock lock(&waiter.mutex);
  while (!waiter.done) waiter.changed.Wait(lock);
}

std::shared_ptr<Replica> Membership::MakeReplica(const std::string& group, const std::string& target) {
  client::ClientOptions options = to_replicas_;
  options.target = target;
  absl::StatusOr<std::shared_ptr<Replica>> replica = Replica::Create(options);
  if (replica.ok()) {
    log::Write(spdlog::level::info, "replica_added", {{"group", group}, {"replica", target}});
    return *std::move(replica);
  }
  log::Write(spdlog::level::err, "replica_refused",
             {{"group", group}, {"replica", target}, {"error", replica.status().ToString()}});
  return nullptr;
}

// Returns one replica per address that the group should have. Reuses the existing replicas and makes the missing ones.
Replicas Membership::ReplicasOf(const ResolvedGroup& wanted, const Replicas& before) {
  Replicas replicas;
  for (const ResolvedGroup::Target& target : wanted.targets) {
    if (!target.addresses.ok()) {
      // The name server did not answer, so it is unknown which replicas belong to this target. Keep all replicas of
      // the group.
      log::Write(spdlog::level::warn, "name_not_resolved",
                 {{"group", wanted.name}, {"error", std::string(target.addresses.status().message())}});
      std::copy_if(before.begin(), before.end(), std::back_inserter(replicas), [&](const auto& replica) {
        return std::find(replicas.begin(), replicas.end(), replica) == replicas.end();
      });
      continue;
    }
    for (const std::string& address : *target.addresses) {
      const auto is_same = [&](const std::shared_ptr<Replica>& replica) { return replica->target() == address; };
      // Two target names may resolve to the same address.
      if (std::any_of(replicas.begin(), replicas.end(), is_same)) continue;
      const auto same = std::find_if(before.begin(), before.end(), is_same);
      std::shared_ptr<Replica> replica = same != before.end() ? *same : MakeReplica(wanted.name, address);
      if (replica != nullptr) replicas.push_back(std::move(replica));
    }
  }
  return replicas;
}

void Membership::ApplyGroups(const std::vector<ResolvedGroup>& groups) {
  std::vector<std::shared_ptr<Group>> next;
  for (const ResolvedGroup& wanted : groups) {
    const auto known = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const std::shared_ptr<Group>& group) { return group->name() == wanted.name; });
    std::shared_ptr<Group> group =
        known != groups_.end()
            ? *known
            : std::make_shared<Group>(wanted.name, options_.max_calls_in_flight, ZoneIdOf(options_.zone));
    const Replicas before = group->replicas();
    Replicas replicas = ReplicasOf(wanted, before);
    for (const std::shared_ptr<Replica>& replica : before) {
      if (std::find(replicas.begin(), replicas.end(), replica) != replicas.end()) continue;
      log::Write(spdlog::level::info, "replica_removed", {{"group", wanted.name}, {"replica", replica->target()}});
      metrics_->RemoveReplica(wanted.name, replica->target());
    }
    group->SetReplicas(std::move(replicas));
    next.push_back(std::move(group));
  }
  for (const std::shared_ptr<Group>& group : groups_) {
    if (std::find(next.begin(), next.end(), group) != next.end()) continue;
    log::Write(spdlog::level::info, "group_removed", {{"group", group->name()}});
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      metrics_->RemoveReplica(group->name(), replica->target());
    }
  }
  groups_ = std::move(next);
}

// Applies the list of groups that the watcher has read.
void Membership::TakeGroups() {
  const std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> groups = watcher_->Take();
  if (!groups.has_value()) return;
  if (groups->ok()) {
    groups_error_.clear();
    return ApplyGroups(**groups);
  }
  // The list of groups could not be read. The router keeps the groups of the last list that it could read.
  std::string error = groups->status().ToString();
  if (error != groups_error_) log::Write(spdlog::level::err, "groups_not_reloaded", {{"error", error}});
  groups_error_ = std::move(error);
}

struct Membership::Poll {
  std::shared_ptr<Group> group;
  std::shared_ptr<Replica> replica;  // destroyed last: the context holds its connection
  grpc::ClientContext context;
  v1::GetInfoRequest request;
  std::shared_ptr<v1::GetInfoResponse> response = std::make_shared<v1::GetInfoResponse>();
};

void Membership::BeginPolls() {
  for (const std::shared_ptr<Group>& group : groups_) {
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      // Allocate everything that the answer needs now: gRPC's threads do not handle running out of memory.
      auto poll = std::make_shared<Poll>();
      poll->group = group;
      poll->replica = replica;
      const absl::Time now = MonotonicNow();
      poll->context.set_deadline(client::ToGrpcTime(now + kPollTimeout));
      metadata_.AddTo(poll->context);
      {
        const MutexLock lock(&mutex_);
        if (!polls_.insert(replica.get()).second) continue;
      }
      replica->BeginPoll(now);
      replica->stubs().reranker->async()->GetInfo(
          &poll->context, &poll->request, poll->response.get(), [this, poll, now](const grpc::Status& status) {
            absl::Status checked = ErrorOfReplica(status);
            if (checked.ok()) checked = CheckInfo(*poll->group, *poll->replica, *poll->response);
            OnPoll(poll->replica, now, checked, std::move(poll->response));
          });
    }
  }
}

// Returns INTERNAL for a wrong answer. The router then treats the replica as one that does not answer.
absl::Status Membership::CheckInfo(const Group& group, const Replica& replica, const v1::GetInfoResponse& info) const {
  return Guarded([&] {
    const std::optional<AnswerFault> fault = CheckInfoAnswer(info);
    return fault.has_value() ? RefuseAnswer(group, replica, *fault, metrics_) : absl::OkStatus();
  });
}

void Membership::OnPoll(const std::shared_ptr<Replica>& replica, absl::Time asked, const absl::Status& status,
                        std::shared_ptr<const v1::GetInfoResponse> info) {
  const bool was_up = replica->poll_status().ok();
  const bool is_silent = absl::IsDeadlineExceeded(status);
  if (status.ok()) {
    replica->ObserveClock(info->clock(), MonotonicNow());
    replica->SetInfo(std::move(info), asked);
    if (!was_up) log::Write(spdlog::level::info, "replica_answers", {{"replica", replica->target()}});
  } else if (replica->CountPollFailure(is_silent) >= kMaxPollFailures || !is_silent) {
    replica->SetPollError(status);
    if (was_up) {
      log::Write(spdlog::level::warn, "replica_does_not_answer",
                 {{"replica", replica->target()}, {"error", std::string(status.message())}});
    }
    if (is_silent) replica->Reconnect();
  }
  const MutexLock lock(&mutex_);
  polls_.erase(replica.get());
  if (stale_polls_.erase(replica.get()) > 0) poll_again_ = true;
  has_news_ = true;
  changed_.NotifyAll();
}

void Membership::PublishView() {
  const absl::Time now = MonotonicNow();
  for (const std::shared_ptr<Group>& group : groups_) {
    if (options_.hedge_at > 0) group->latencies().Turn(now, options_.hedge_at);
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
      if (info == nullptr) continue;
      for (const v1::CollectionInfo& collection : info->collections()) {
        const v1::LiveInfo& live = collection.live();
        if (live.log() == kStreamLog) lags_.Note(collection.name(), live.sequence(), now);
      }
    }
  }
  const std::shared_ptr<const View> view = View::Of(groups_, this->view().get(), &lags_);
  reporter_.Report(*view, now);
  const MutexLock lock(&mutex_);
  view_ = view;
}

void Membership::Run() {
  NameThisThread("membership");
  absl::Time next_round = absl::InfinitePast();
  absl::Time refresh_until = absl::InfinitePast();
  std::vector<absl::AnyInvocable<void()>> refreshing;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (refreshing.empty() && !waiting_.empty()) {
      refreshing.swap(waiting_);
      refresh_until = MonotonicNow() + kRefreshTime;
      // Polls that are already in progress may return answers from before the change that caused this refresh. So the
      // replicas that these polls ask are polled again.
      stale_polls_ = polls_;
      next_round = absl::InfinitePast();
    }
    const absl::Time now = MonotonicNow();
    const bool has_groups = std::exchange(has_groups_, false);
    if (now >= next_round || has_groups || std::exchange(poll_again_, false)) {
      next_round = now + options_.poll_interval;
      poll_again_ = false;
      // Polls new replicas now, and publishes the view again without the removed ones.
      has_news_ = has_news_ || has_groups;
      lock.Unlock();
      if (has_groups) TakeGroups();
      BeginPolls();
      lock.Lock();
    }
    const bool refreshed = !refreshing.empty() && ((polls_.empty() && !poll_again_) || now >= refresh_until);
    if (std::exchange(has_news_, false) || refreshed) {
      lock.Unlock();
      PublishView();
      if (refreshed) {
        for (absl::AnyInvocable<void()>& then : refreshing) then();
        refreshing.clear();
      }
      lock.Lock();
    }
    absl::Time wake = next_round;
    if (!refreshing.empty()) wake = std::min(wake, refresh_until);
    const absl::Duration left = wake - MonotonicNow();
    if (left > absl::ZeroDuration() && !has_news_ && !has_groups_ && !poll_again_ && !stopping_ &&
        (waiting_.empty() || !refreshing.empty())) {
      changed_.WaitFor(lock, absl::ToChronoNanoseconds(left));
    }
    if (!stopping_ && has_news_ && refreshing.empty()) changed_.WaitFor(lock, kGatherTime);
  }
  lock.Unlock();
  for (absl::AnyInvocable<void()>& then : refreshing) then();
}

}  // namespace maxsim::cluster
