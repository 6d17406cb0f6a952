#include "server/router_role.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "maxsim_version.h"
#include "server/cluster/router_info.h"
#include "server/observability/logging.h"
#include "server/service/request/info.h"
#include "server/startup.h"

namespace maxsim {
namespace {

// How long Start waits for groups of servers that do not answer. After this time the router serves with the groups that
// answer. The time is long enough for servers that are started together with the router to listen. It is short enough
// that a router which replaces another one does not wait long for a group that is lost.
constexpr absl::Duration kStartTime = absl::Seconds(5);
constexpr absl::Duration kStartInterval = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<RouterRole>> RouterRole::Create(const config::Config& config, Metrics* metrics) {
  absl::StatusOr<client::ClientOptions> to_replicas = OptionsToServers(config);
  if (!to_replicas.ok()) return to_replicas.status();
  std::unique_ptr<RouterRole> role(new RouterRole(config, *std::move(to_replicas), metrics));
  absl::StatusOr<std::unique_ptr<encoder::Encoder>> encoder = MakeEncoder(config, metrics);
  if (!encoder.ok()) return encoder.status();
  role->texts_.SetEncoder(*std::move(encoder), config.batching.max_queue_bytes);
  if (absl::Status status = role->membership_.Start(); !status.ok()) return status;
  return role;
}

RouterRole::RouterRole(const config::Config& config, client::ClientOptions to_replicas, Metrics* metrics)
    : config_(config),
      metrics_(metrics),
      metadata_(to_replicas),
      membership_(config.cluster, std::move(to_replicas), &metrics->cluster()),
      scorer_(Dependencies()),
      front_(&scorer_, &texts_, metrics_, config_.limits, config_.log.slow_request),
      documents_(Dependencies()),
      collections_(&membership_, &stop_),
      keeper_(&membership_, config_.cluster.poll_interval) {}

RouterRole::~RouterRole() = default;

cluster::RouterDependencies RouterRole::Dependencies() {
  return {.membership = &membership_,
          .metrics = metrics_,
          .environment = {.timer = &timer_, .calls = &calls_, .metrics = &metrics_->cluster(), .metadata = &metadata_},
          .limits = config_.limits,
          .timeout = config_.cluster.timeout};
}

v1::GetInfoResponse RouterRole::Info() const {
  v1::GetInfoResponse response;
  response.set_version(kVersion);
  response.set_commit(kCommit);
  response.set_zone(config_.cluster.zone);
  response.set_loading(front_.state() == service::ServingState::kLoading);
  if (auto encoder = texts_.info(); encoder != nullptr) *response.mutable_encoder() = *std::move(encoder);
  *response.mutable_limits() = service::ToProto(config_.limits, config_.batching.max_queue_work);
  for (v1::CollectionInfo& collection : collections_.List()) *response.add_collections() = std::move(collection);
  cluster::AddGroups(*membership_.view(), MonotonicNow(), response);
  return response;
}

absl::Status RouterRole::Start(const Begin& begin) {
  const absl::Time end = MonotonicNow() + kStartTime;
  for (;;) {
    std::string silent;
    const std::shared_ptr<const cluster::View> view = membership_.view();
    for (const std::shared_ptr<cluster::Group>& group : view->groups()) {
      if (!cluster::Answers(*group)) silent = group->name();
    }
    if (silent.empty()) break;
    if (absl::Status status = begin(absl::StrCat("group ", silent)); !status.ok()) return status;
    if (MonotonicNow() >= end) {
      log::Write(spdlog::level::warn, "group_does_not_answer", {{"group", silent}});
      break;
    }
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kStartInterval));
  }
  membership_.Refresh();
  keeper_.Start();
  return absl::OkStatus();
}

ActivityTotals RouterRole::Observe() {
  ActivityTotals totals;
  totals.metrics = metrics_->Totals();
  return totals;
}

absl::Status RouterRole::Readiness() const {
  const std::shared_ptr<const cluster::View> view = membership_.view();
  for (const std::shared_ptr<cluster::Group>& group : view->groups()) {
    if (cluster::Answers(*group)) return absl::OkStatus();
  }
  return absl::UnavailableError("no server of the cluster answers");
}

std::string RouterRole::Losses() const { return cluster::DescribeLosses(*membership_.view()); }

int64_t RouterRole::Drain(absl::Time deadline) {
  texts_.Stop(deadline);
  // Wait for the calls to groups that are in progress. calls_.Close ends those that are still in progress at the
  // deadline.
  calls_.WaitForNone(deadline);
  // Stop continues calls that waited for a refresh, so wait for these, too.
  membership_.Stop();
  calls_.WaitForNone(deadline);
  return static_cast<int64_t>(calls_.Close());
}

}  // namespace maxsim
