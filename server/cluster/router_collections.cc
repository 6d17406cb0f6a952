#include "server/cluster/router_collections.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/error_details.h"
#include "client/slot_message.h"
#include "server/cluster/changes/checked_admin_call.h"
#include "server/cluster/changes/cluster_reload.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/call_outcome.h"
#include "server/cluster/groups/check_info.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/observed/collection_report.h"
#include "server/observability/logging.h"
#include "server/service/layout/layout_message.h"

namespace maxsim::cluster {
namespace {

// Returns the replica's last report about a collection; empty if it has reported nothing.
v1::CollectionInfo InfoFrom(const Replica& replica, const std::string& name) {
  const std::shared_ptr<const v1::GetInfoResponse> info = replica.info();
  const v1::CollectionInfo* const report = ReportAbout(name, info.get());
  return report == nullptr ? v1::CollectionInfo() : *report;
}

bool AnswersPolls(const std::shared_ptr<Replica>& replica) { return replica->poll_status().ok(); }

absl::Status UnknownCollection(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no collection \"", name, "\" on any server of the cluster"));
}

absl::Status CheckGroupsAreKnown(const View& view, const v1::SetLayoutRequest& request) {
  for (int i = 0; i < request.owners_size(); ++i) {
    const std::string& name = request.owners(i).group();
    const bool is_known = std::any_of(view.groups().begin(), view.groups().end(),
                                      [&](const std::shared_ptr<Group>& group) { return group->name() == name; });
    if (is_known) continue;
    return client::InvalidField(absl::StrCat("owners[", i, "].group"),
                                absl::StrCat("is ", Quote(name), ", which is no group of this router"));
  }
  return absl::OkStatus();
}

absl::Status OnlyOnServers(std::string_view method) {
  return absl::FailedPreconditionError(
      Cat("this is a router, which has no collections of its own; call ", method, " at a server of a group"));
}

}  // namespace

template <typename Request, typename Response>
absl::Status RouterCollections::OnAll(Rpc<Request, Response> rpc, const Request& request,
                                      const service::ChangeContext& context, absl::StatusCode done_before,
                                      const std::function<void(const Response&)>& seen) {
  const std::shared_ptr<const View> view = membership_->view();
  absl::Status before;
  bool has_done = false;
  for (const std::shared_ptr<Group>& group : view->groups()) {
    absl::Status status = OnGroup(*group, rpc, request, context, done_before, seen, &has_done);
    if (!status.ok() && status.code() != done_before) return status;
    before.Update(status);
  }
  return has_done ? absl::OkStatus() : before;
}

template <typename Request, typename Response>
absl::Status RouterCollections::OnGroup(const Group& group, Rpc<Request, Response> rpc, const Request& request,
                                        const service::ChangeContext& context, absl::StatusCode done_before,
                                        const std::function<void(const Response&)>& seen, bool* has_done) {
  absl::Status before;
  for (const std::shared_ptr<Replica>& replica : group.replicas()) {
    const absl::StatusOr<Response> response =
        CallChecked(group, *replica, rpc, request, context, membership_->metrics());
    if (response.ok()) {
      *has_done = true;
      if (seen != nullptr) seen(*response);
    } else if (done_before != absl::StatusCode::kOk && response.status().code() == done_before) {
      before.Update(OfServer(*replica, group, response.status()));
    } else {
      return OfServer(*replica, group, response.status());
    }
  }
  return before;
}

absl::StatusOr<v1::CollectionInfo> RouterCollections::InfoOf(const std::string& name) {
  membership_->Refresh();
  const std::shared_ptr<const View> view = membership_->view();
  const auto found = view->collections().find(name);
  if (found == view->collections().end()) return UnknownCollection(name);
  return found->second->info;
}

absl::StatusOr<v1::CollectionInfo> RouterCollections::LoadForClient(const v1::LoadCollectionRequest& request,
                                                                    const service::ChangeContext& context) {
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  absl::Status status = OnAll(kLoadRpc, request, change, absl::StatusCode::kAlreadyExists, {});
  if (!status.ok()) return status;
  return InfoOf(request.name());
}

absl::StatusOr<v1::CollectionInfo> RouterCollections::CreateForClient(const v1::CreateCollectionRequest& request,
                                                                      const service::ChangeContext& context) {
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  const std::shared_ptr<const View> view = membership_->view();
  const auto num_groups = static_cast<int32_t>(view->groups().size());
  if (request.has_slots() || num_groups < 2) {
    absl::Status status = OnAll(kCreateRpc, request, change, absl::StatusCode::kAlreadyExists, {});
    return status.ok() ? InfoOf(request.name()) : status;
  }
  absl::Status before;
  bool has_done = false;
  for (int32_t idx = 0; idx < num_groups; ++idx) {
    v1::CreateCollectionRequest of_group = request;
    *of_group.mutable_slots() = client::SlotMessageOf(collection::PartitionOf(idx, num_groups));
    const absl::Status status = OnGroup(*view->groups()[static_cast<size_t>(idx)], kCreateRpc, of_group, change,
                                        absl::StatusCode::kAlreadyExists, {}, &has_done);
    if (absl::IsAlreadyExists(status)) before.Update(status);
    if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  }
  // If no server was asked, because the router knows none yet, `before` is OK and must not become the result.
  return has_done || before.ok() ? InfoOf(request.name()) : before;
}

// Also removes the settings that the servers share in NATS, even if the client does not ask for it: otherwise a server
// would create the collection again. A collection that is not live has no settings, and is unloaded without NATS.
absl::Status RouterCollections::Unload(const std::string& name, bool remove_settings,
                                       const service::ChangeContext& context) {
  const std::shared_ptr<const View> view = membership_->view();
  const auto known = view->collections().find(name);
  // If no server reports the collection now, `info` has no dimension, and may lack `live` although it is live.
  const bool is_fixed =
      known != view->collections().end() && known->second->info.dim() > 0 && !known->second->info.has_live();
  v1::UnloadCollectionRequest request;
  request.set_name(name);
  request.set_remove_settings(remove_settings || !is_fixed);
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  absl::Status status = OnAll(kUnloadRpc, request, change, absl::StatusCode::kNotFound, {});
  membership_->Refresh();
  return status;
}

absl::StatusOr<v1::CollectionInfo> RouterCollections::Compact(const std::string& name, bool* changed,
                                                              const service::ChangeContext& context) {
  v1::CompactCollectionRequest request;
  request.set_name(name);
  *changed = false;
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  absl::Status status = OnAll<v1::CompactCollectionRequest, v1::CompactCollectionResponse>(
      kCompactRpc, request, change, absl::StatusCode::kNotFound,  // groups without slots need not have the collection
      [&](const v1::CompactCollectionResponse& response) { *changed = *changed || response.changed(); });
  if (!status.ok()) return status;
  return InfoOf(name);
}

absl::StatusOr<v1::ReloadCollectionResponse> RouterCollections::Reload(const v1::ReloadCollectionRequest& request,
                                                                       const service::ChangeContext& context) {
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  absl::StatusOr<v1::ReloadCollectionResponse> response = ReloadCluster(*membership_, request, change);
  if (!response.ok()) return response;
  absl::StatusOr<v1::CollectionInfo> info = InfoOf(request.name());
  if (!info.ok()) return info.status();
  *response->mutable_collection() = *std::move(info);
  return response;
}

void RouterCollections::ReloadAll() {
  for (const v1::CollectionInfo& info : List()) {
    v1::ReloadCollectionRequest request;
    request.set_name(info.name());
    const absl::StatusOr<v1::ReloadCollectionResponse> reloaded = Reload(request, {});
    if (reloaded.ok()) {
      log::Write(spdlog::level::info, "cluster_reloaded",
                 {{"name", info.name()},
                  {"generation", reloaded->collection().generation()},
                  {"changed", reloaded->changed()},
                  {"not_reached", absl::StrJoin(reloaded->not_reached(), ", ")}});
    } else {
      log::Write(spdlog::level::err, "cluster_not_reloaded",
                 {{"name", info.name()}, {"error", std::string(reloaded.status().message())}});
    }
  }
}

absl::StatusOr<uint64_t> RouterCollections::SnapshotForClient(const std::string& name, const std::string& path,
                                                              const service::ChangeContext& context) {
  const auto collection = membership_->view()->Find(name);
  if (!collection.ok()) return collection.status();
  v1::SnapshotCollectionRequest request;
  request.set_name(name);
  request.set_path(path);
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  uint64_t sequence = std::numeric_limits<uint64_t>::max();
  for (const CollectionView::Part& part : (*collection)->parts) {
    const Replicas& replicas = part.target.replicas;
    const auto answering = std::find_if(replicas.begin(), replicas.end(), AnswersPolls);
    if (answering == replicas.end()) {
      return absl::UnavailableError(absl::StrCat("no replica of group ", part.target.group->name(), " answers"));
    }
    const Group& group = *part.target.group;
    const uint64_t least = InfoFrom(**answering, name).live().sequence();
    const auto response = CallAdmin(group, **answering, kSnapshotRpc, request, change);
    if (!response.ok()) return OfServer(**answering, group, response.status());
    if (const auto fault = CheckSnapshotAnswer(least, *response); fault.has_value()) {
      return OfServer(**answering, group, RefuseAnswer(group, **answering, *fault, membership_->metrics()));
    }
    sequence = std::min(sequence, response->sequence());
  }
  return sequence;
}

absl::StatusOr<v1::SlotLayout> RouterCollections::SetLayout(const v1::SetLayoutRequest& request,
                                                            const service::ChangeContext& context) {
  if (absl::Status status = service::OwnersOf(request).status(); !status.ok()) return status;
  const std::shared_ptr<const View> view = membership_->view();
  if (absl::Status status = CheckGroupsAreKnown(*view, request); !status.ok()) return status;
  const auto found = view->collections().find(request.name());
  if (found == view->collections().end()) return UnknownCollection(request.name());
  if (found->second->info.live().log() != kStreamLog) {
    return absl::FailedPreconditionError(absl::StrCat("collection ", request.name(), ": no stream orders its writes ",
                                                      "(live.log), so it has no layout"));
  }
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  absl::Status last = absl::UnavailableError(
      absl::StrCat("no server that follows the stream of collection ", request.name(), " answers"));
  for (const std::shared_ptr<Group>& group : view->groups()) {
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      if (!AnswersPolls(replica) || InfoFrom(*replica, request.name()).live().log() != kStreamLog) continue;
      absl::StatusOr<v1::SetLayoutResponse> response = CallAdmin(*group, *replica, kSetLayoutRpc, request, change);
      if (!response.ok()) {
        last = OfServer(*replica, *group, response.status());
        if (IsSafeToRepeat(response.status()) && !both.stopped()) continue;
        return last;
      }
      if (const auto fault = CheckLayoutAnswer(request, *response); fault.has_value()) {
        return OfServer(*replica, *group, RefuseAnswer(*group, *replica, *fault, membership_->metrics()));
      }
      membership_->Refresh();
      return std::move(*response->mutable_layout());
    }
  }
  return last;
}

absl::Status RouterCollections::ReadSnapshot(const std::string& name, service::SnapshotSink sink,
                                             const service::ChangeContext& context) {
  return OnlyOnServers("ReadSnapshot");
}

absl::StatusOr<v1::BootstrapCollectionResponse> RouterCollections::Bootstrap(
    const v1::BootstrapCollectionRequest& request, const service::ChangeContext& context) {
  return OnlyOnServers("BootstrapCollection");
}

std::vector<v1::CollectionInfo> RouterCollections::List() const {
  std::vector<v1::CollectionInfo> infos;
  const std::shared_ptr<const View> view = membership_->view();
  for (const auto& [name, collection] : view->collections()) infos.push_back(collection->info);
  return infos;
}

}  // namespace maxsim::cluster
