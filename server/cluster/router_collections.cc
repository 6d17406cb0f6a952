#include "server/cluster/router_collections.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/error_details.h"
#include "client/slot_message.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/call_outcome.h"
#include "server/cluster/groups/check_info.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/observed/collection_report.h"
#include "server/cluster/parts/error_origin.h"
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

// A group whose replicas are being reloaded.
struct Reloading {
  std::shared_ptr<Group> group;
  Replicas replicas = {};  // in the order in which to reload them
  size_t num_alive = 0;    // answered polls when the reload began
  size_t num_asked = 0;
  size_t num_reloaded = 0;

  bool has_more() const { return num_asked < replicas.size(); }
};

// Returns the groups in the order in which to reload them. Within a group, replicas that do not have the generation
// that requests name (for example because they were restarted) come first, so that the others go on serving that
// generation in the meantime, and replicas that do not answer come last. Groups with only one replica that answers come
// after all other groups: once that replica has the new generation, no other replica of its group serves the old one.
std::vector<Reloading> InReloadOrder(const View& view, const std::string& name, uint64_t asked_for) {
  std::vector<Reloading> groups;
  for (const std::shared_ptr<Group>& group : view.groups()) {
    Reloading& reloading = groups.emplace_back(Reloading{.group = group, .replicas = group->replicas()});
    Replicas& replicas = reloading.replicas;
    const auto alive_end = std::stable_partition(replicas.begin(), replicas.end(), AnswersPolls);
    std::stable_partition(replicas.begin(), alive_end, [&](const std::shared_ptr<Replica>& replica) {
      return InfoFrom(*replica, name).generation() != asked_for;
    });
    reloading.num_alive = static_cast<size_t>(alive_end - replicas.begin());
  }
  std::stable_partition(groups.begin(), groups.end(), [](const Reloading& one) { return one.num_alive > 1; });
  return groups;
}

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

// Returns the error with a note that says which server of the cluster it comes from.
absl::Status OfServer(const Replica& replica, const Group& group, const absl::Status& status) {
  return WithOrigin(status, absl::StrCat("server ", replica.target(), " of group ", group.name()));
}

absl::Status OnlyOnServers(std::string_view method) {
  return absl::FailedPreconditionError(
      Cat("this is a router, which has no collections of its own; call ", method, " at a server of a group"));
}

}  // namespace

template <typename Request, typename Response>
absl::StatusOr<Response> RouterCollections::CallChecked(const Group& group, const Replica& replica,
                                                        Rpc<Request, Response> rpc, const Request& request,
                                                        const service::ChangeContext& context) {
  absl::StatusOr<Response> response = CallAdmin(group, replica, rpc, request, context);
  if constexpr (requires(const Response& answer) { answer.collection(); }) {
    if (!response.ok()) return response;
    const std::optional<AnswerFault> fault = CheckChangedCollection(request.name(), response->collection());
    if (fault.has_value()) return RefuseAnswer(group, replica, *fault, membership_->metrics());
  }
  return response;
}

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
    const absl::StatusOr<Response> response = CallChecked(group, *replica, rpc, request, context);
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

absl::StatusOr<v1::CollectionInfo> RouterCollections::Reload(const std::string& name, bool* changed,
                                                             const service::ChangeContext& context) {
  v1::ReloadCollectionRequest request;
  request.set_name(name);
  *changed = false;
  const StopSignal both(context.stop, shutdown_);
  const service::ChangeContext change{.stop = &both, .span = context.span};
  const std::shared_ptr<const View> view = membership_->view();
  const auto known = view->collections().find(name);
  const uint64_t asked_for = known == view->collections().end() ? 0 : known->second->generation;
  std::vector<Reloading> groups = InReloadOrder(*view, name, asked_for);
  absl::Status away;     // the first server that could not be reached
  absl::Status without;  // the first server without the collection
  bool has_reloaded = false;
  // Reloads the group's next replica. Returns an error that ends the reload.
  const auto reload_next = [&](Reloading& one) {
    const Replica& replica = *one.replicas[one.num_asked++];
    const auto response = CallChecked(*one.group, replica, kReloadRpc, request, change);
    if (response.ok()) {
      ++one.num_reloaded;
      has_reloaded = true;
      *changed = *changed || response->changed();
      return absl::OkStatus();
    }
    const absl::Status error = OfServer(replica, *one.group, response.status());
    // A server that does not report the collection need not have it, because its group may own no slots. But if the
    // server reports it, NOT_FOUND means that files are missing.
    if (absl::IsNotFound(error) && ReportAbout(name, replica.info().get()) == nullptr) {
      without.Update(error);
      return absl::OkStatus();
    }
    if (both.stopped() || !absl::IsUnavailable(error)) return error;
    // A server that is away, or starts, loads the published generation when it starts.
    away.Update(error);
    log::Write(spdlog::level::warn, "replica_not_reloaded",
               {{"name", name}, {"replica", replica.target()}, {"error", std::string(response.status().message())}});
    return absl::OkStatus();
  };
  // For each group, reloads one replica after another as long as `wants` returns true for the group.
  const auto reload_while = [&](const std::function<bool(const Reloading&)>& wants) {
    for (Reloading& one : groups) {
      while (one.has_more() && wants(one)) {
        if (absl::Status status = reload_next(one); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  };
  absl::Status status =
      reload_while([](const Reloading& one) { return one.num_asked < std::max<size_t>(1, (one.num_alive + 1) / 2); });
  // Requests name the new generation only if every group has it.
  if (status.ok()) status = reload_while([](const Reloading& one) { return one.num_reloaded == 0; });
  if (!status.ok()) return status;
  // From here on requests name the new generation.
  membership_->Refresh();
  if (status = reload_while([](const Reloading&) { return true; }); !status.ok()) return status;
  // If no server was asked, because the router knows none yet, `without` is OK and must not become the result.
  if (away.ok()) return has_reloaded || without.ok() ? InfoOf(name) : without;
  membership_->Refresh();
  return client::WithAddition(away,
                              "; all servers that answer have been reloaded, and this one loads the published "
                              "generation when it starts");
}

void RouterCollections::ReloadAll() {
  for (const v1::CollectionInfo& info : List()) {
    bool changed = false;
    const auto reloaded = Reload(info.name(), &changed, {});
    if (reloaded.ok()) {
      log::Write(spdlog::level::info, "cluster_reloaded",
                 {{"name", info.name()}, {"generation", reloaded->generation()}, {"changed", changed}});
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
