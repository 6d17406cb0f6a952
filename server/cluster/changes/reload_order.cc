#include "server/cluster/changes/reload_order.h"

#include <algorithm>
#include <utility>

#include "collection/generations/kept_generations.h"
#include "server/cluster/observed/collection_report.h"

namespace maxsim::cluster {
namespace {

uint64_t GenerationOn(const Replica& replica, const std::string& name) {
  const std::shared_ptr<const v1::GetInfoResponse> info = replica.info();
  const v1::CollectionInfo* const report = ReportAbout(name, info.get());
  return report == nullptr ? 0 : report->generation();
}

}  // namespace

uint64_t NextRevision(const View& view, const std::string& name, absl::Time now) {
  uint64_t next = static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(now), 0));
  next = std::max(next, kFirstRevision + 1);
  for (const std::shared_ptr<Group>& group : view.groups()) {
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
      const v1::CollectionInfo* const report = ReportAbout(name, info.get());
      if (report != nullptr) next = std::max(next, report->reload_revision() + 1);
    }
  }
  return std::min(next, collection::kMaxReloadRevision);
}

std::vector<ReloadOrder> InReloadOrder(const View& view, const std::string& name, absl::Time now) {
  const auto known = view.collections().find(name);
  const uint64_t named = known == view.collections().end() ? 0 : known->second->generation;
  std::vector<ReloadOrder> groups;
  for (const std::shared_ptr<Group>& group : view.groups()) {
    ReloadOrder& order = groups.emplace_back(ReloadOrder{.group = group, .replicas = group->replicas()});
    Replicas& replicas = order.replicas;
    const auto is_alive = [&](const std::shared_ptr<Replica>& replica) {
      return replica->poll_status().ok() && !replica->is_silent(now);
    };
    const auto alive_end = std::stable_partition(replicas.begin(), replicas.end(), is_alive);
    std::stable_partition(replicas.begin(), alive_end, [&](const std::shared_ptr<Replica>& replica) {
      return GenerationOn(*replica, name) != named;
    });
    order.num_alive = static_cast<size_t>(alive_end - replicas.begin());
  }
  std::stable_partition(groups.begin(), groups.end(), [](const ReloadOrder& one) { return one.num_alive > 1; });
  return groups;
}

bool HasMissed(const v1::CollectionInfo& report, uint64_t generation, uint64_t revision) {
  return std::pair(report.reload_revision(), report.generation()) < std::pair(revision, generation);
}

std::vector<Behind> FindBehind(const View& view) {
  std::vector<Behind> behind;
  for (const auto& [name, collection] : view.collections()) {
    const CollectionView& seen = *collection;
    if (!seen.status.ok() || seen.generation == 0) continue;
    const bool is_first = seen.revision == 0;
    if (is_first && !seen.missing_groups.empty()) continue;
    const uint64_t revision = std::max(seen.revision, kFirstRevision);
    for (const std::shared_ptr<Group>& group : view.groups()) {
      for (const std::shared_ptr<Replica>& replica : group->replicas()) {
        const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
        if (!IsLoaded(*replica, info.get())) continue;
        const v1::CollectionInfo* const report = ReportAbout(name, info.get());
        if (report == nullptr || report->generation() == 0 || report->has_live()) continue;
        const bool serves_it = report->generation() == seen.generation;
        if (!HasMissed(*report, seen.generation, revision) || (is_first && !serves_it)) continue;
        behind.push_back({group, replica, name, seen.generation, revision});
      }
    }
  }
  return behind;
}

}  // namespace maxsim::cluster
