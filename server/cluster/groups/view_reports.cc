// Reports the state of a view's collections and replicas, as texts for people and as values for metrics.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/observed/collection_report.h"
#include "server/cluster/observed/slot_layout.h"

namespace maxsim::cluster {
namespace {

// Returns why a part's group cannot answer requests for the collection now; "" if it can.
std::string WhyMissing(const CollectionView& view, const CollectionView::Part& part) {
  const std::string& name = part.target.group->name();
  if (!part.is_configured) {
    return absl::StrCat("group ", name, " owns ", collection::DescribeSlots(part.slots), " (revision ",
                        view.layout.revision(), " of the layout), but is not in the router's list of groups");
  }
  for (const std::shared_ptr<Replica>& replica : part.target.replicas) {
    if (IsLoaded(*replica, replica->info().get())) return "";
  }
  std::string why = "does not answer";
  for (const std::shared_ptr<Replica>& replica : part.target.group->replicas()) {
    const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
    if (!IsLoaded(*replica, info.get())) continue;
    const v1::CollectionInfo* const report = ReportAbout(view.name, info.get());
    if (report == nullptr || report->generation() == 0) {
      why = "has not loaded it";
    } else if (view.has_layout() && !Holds(*report, part.slots)) {
      return absl::StrCat("group ", name, " owns ", collection::DescribeSlots(part.slots), " (revision ",
                          view.layout.revision(), " of the layout), but no replica that answers holds all of them");
    } else if (report->generation() != view.generation && view.generation != 0) {
      return absl::StrCat("group ", name, " has generation ", report->generation(), " and not ", view.generation);
    }
  }
  return absl::StrCat("group ", name, " ", why);
}

}  // namespace

bool IsLoaded(const Replica& replica, const v1::GetInfoResponse* info) {
  return info != nullptr && replica.poll_status().ok() && !info->loading();
}

void CollectionView::SetState(const absl::Status& note) {
  if (!status.ok()) {
    info.set_state(v1::COLLECTION_STATE_FAILED);
    info.set_error(std::string(status.message()));
    return;
  }
  std::vector<std::string> reasons;
  for (const Part& part : parts) {
    std::string why = WhyMissing(*this, part);
    if (why.empty()) continue;
    missing_groups.push_back(part.target.group->name());
    reasons.push_back(std::move(why));
  }
  info.set_state(reasons.empty() ? v1::COLLECTION_STATE_READY : v1::COLLECTION_STATE_PARTIAL);
  if (!note.ok()) reasons.emplace_back(note.message());
  info.set_error(absl::StrJoin(reasons, "; "));
}

void View::SetReports(const LagTracker* lags) {
  for (const std::shared_ptr<Group>& group : groups_) {
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
      if (info == nullptr) continue;
      for (const v1::CollectionInfo& collection : info->collections()) {
        v1::ReplicaCollection& report = reports_[replica.get()].emplace_back();
        report.set_name(collection.name());
        report.set_generation(collection.generation());
        if (collection.has_partition()) *report.mutable_slots() = collection.partition();
        report.set_layout_revision(collection.live().layout().revision());
        if (collection.live().log() == kStreamLog) {
          const v1::LiveInfo& live = collection.live();
          report.set_sequence(live.sequence());
          const Lag lag = lags == nullptr
                              ? Lag{.writes = live.lag(), .time = absl::ZeroDuration()}
                              : lags->LagOf(collection.name(), live.sequence(), live.lag(), replica->info_asked());
          report.set_lag_writes(lag.writes);
          report.set_lag_seconds(absl::ToDoubleSeconds(lag.time));
        }
        // The replica may have reported a collection only after this view was made. The view does not have it then.
        const auto found = collections_.find(collection.name());
        if (found == collections_.end()) continue;
        const auto reason = found->second->left_out.find(replica.get());
        if (reason != found->second->left_out.end()) report.set_left_out(reason->second);
      }
    }
  }
}

const std::vector<v1::ReplicaCollection>& View::ReportsOf(const Replica& replica) const {
  static const auto* const none = new std::vector<v1::ReplicaCollection>();
  const auto found = reports_.find(&replica);
  return found == reports_.end() ? *none : found->second;
}

v1::ReplicaState View::StateOf(const Replica& replica, absl::Time now) const {
  if (!replica.poll_status().ok()) return v1::REPLICA_STATE_CONNECTING;
  if (replica.health().is_ejected(now)) return v1::REPLICA_STATE_EJECTED;
  if (!IsLoaded(replica, replica.info().get()) || !loaded_.contains(&replica)) return v1::REPLICA_STATE_LOADING;
  const std::vector<v1::ReplicaCollection>& reports = ReportsOf(replica);
  const bool is_left_out = std::any_of(reports.begin(), reports.end(),
                                       [](const v1::ReplicaCollection& report) { return !report.left_out().empty(); });
  return is_left_out ? v1::REPLICA_STATE_LEFT_OUT : v1::REPLICA_STATE_READY;
}

}  // namespace maxsim::cluster
