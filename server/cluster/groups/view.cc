#include "server/cluster/groups/view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "server/cluster/groups/group_reports.h"
#include "server/cluster/observed/collection_report.h"

namespace maxsim::cluster {
namespace {

// Returns whether a server has not yet said whether it has a collection, because it has not answered or is still
// loading.
bool IsSilent(const v1::GetInfoResponse* info, std::string_view name) {
  if (info == nullptr) return true;
  const v1::CollectionInfo* const report = ReportAbout(name, info);
  if (report == nullptr) return info->loading();
  return report->generation() == 0 && report->state() == v1::COLLECTION_STATE_LOADING;
}

// Assigns every slot to the part (a group's share of the collection) that holds it. Assigns slots that no part holds to
// `silent`, a group that has not yet said what it holds (may be null). Returns UNAVAILABLE if two groups hold the same
// slot, or if no part holds a slot and `silent` is null.
absl::Status DealSlots(const std::shared_ptr<Group>& silent, CollectionView& view) {
  view.part_of_slot.fill(-1);
  for (size_t idx = 0; idx < view.parts.size(); ++idx) {
    const CollectionView::Part& part = view.parts[idx];
    for (int32_t slot = part.slots.first; slot < part.slots.end; ++slot) {
      int16_t& owner = view.part_of_slot[static_cast<size_t>(slot)];
      if (owner >= 0) {
        return absl::UnavailableError(absl::StrCat("collection ", Quote(view.name), ": group ",
                                                   view.parts[static_cast<size_t>(owner)].target.group->name(),
                                                   " and group ", part.target.group->name(), " both hold slot ", slot));
      }
      owner = static_cast<int16_t>(idx);
    }
  }
  for (int32_t slot = 0; slot < collection::kNumSlots; ++slot) {
    int16_t& owner = view.part_of_slot[static_cast<size_t>(slot)];
    if (owner >= 0) continue;
    if (silent != nullptr) {
      if (view.parts.empty() || view.parts.back().target.group != silent) {
        view.parts.push_back({.target = {.group = silent, .replicas = {}}, .num_documents = 0, .slots = {}});
      }
      owner = static_cast<int16_t>(view.parts.size() - 1);
      continue;
    }
    return absl::UnavailableError(
        absl::StrCat("collection ", Quote(view.name), ": no group has said that it holds slot ", slot));
  }
  return absl::OkStatus();
}

// Adds the group's part, with the replicas that have the view's generation. `owner` is the group's entry in the layout,
// or null if there is no layout: then the replicas must hold the same slots. Returns an error if the replicas
// contradict each other or the view.
absl::Status AddPart(const GroupSaid& group, const v1::SlotOwner* owner, CollectionView& view) {
  CollectionView::Part part;
  part.target.group = group.group;
  const v1::CollectionInfo* of_part = nullptr;
  for (const Said& said : group.replicas) {
    const bool has_generation = view.generation == 0 || said.info.generation() == view.generation;
    if (!has_generation) {
      if (!said.answers) continue;
      view.left_out[said.replica.get()] =
          absl::StrCat("it has generation ", said.info.generation(), ", but requests name ", view.generation,
                       said.info.error().empty() ? "" : "; its last reload failed: ", said.info.error());
      continue;
    }
    if (absl::Status status = CheckSameShape(view.info, said.info, view.name); !status.ok()) return status;
    if (owner == nullptr && of_part != nullptr && SlotsOf(*of_part) != SlotsOf(said.info)) {
      return absl::UnavailableError(absl::StrCat(
          "collection ", Quote(view.name), ": replicas of group ", group.group->name(), " hold ",
          collection::DescribeSlots(SlotsOf(*of_part)), " and ", collection::DescribeSlots(SlotsOf(said.info))));
    }
    if (view.generation != 0 && IsOtherBuild(part.fingerprint, said.info.fingerprint())) {
      return absl::UnavailableError(OtherBuild(view.name, *group.group, view.generation, part.fingerprint, said.info));
    }
    part.target.replicas.push_back(said.replica);
    of_part = &said.info;
    if (part.fingerprint.empty()) part.fingerprint = said.info.fingerprint();
  }
  // A group that has only a different generation cannot answer requests, but it still reports which slots it holds.
  if (of_part == nullptr) of_part = &group.replicas.front().info;
  part.slots = owner == nullptr ? SlotsOf(*of_part) : client::SlotRangeOf(owner->slots());
  // If no server has counted the documents of the part's slots, takes the number of all documents that the replica
  // holds.
  const bool is_counted = owner != nullptr && owner->counted_case() == v1::SlotOwner::kNumDocuments;
  part.num_documents = is_counted ? owner->num_documents() : of_part->num_documents();
  part.is_restricted = owner != nullptr;
  const uint64_t num_documents = view.info.num_documents();
  AddUp(*of_part, view.parts.empty(), view.info);
  view.info.set_num_documents(SaturatingAdd(num_documents, part.num_documents));
  view.parts.push_back(std::move(part));
  return absl::OkStatus();
}

// Adds one part for each owner of the view's layout, in the order of their slots. Returns an error if replicas
// contradict each other or the view.
//
// Requests to every part are restricted to its slots, also while all replicas of its group hold exactly these. If a
// server takes or drops slots, the router learns it only by its next poll. Until then an unrestricted answer would have
// documents of other groups, or lack documents; a restricted one has the right documents, or is refused (IsOtherSlots).
absl::Status AddOwnedParts(const std::vector<std::shared_ptr<Group>>& groups, const std::vector<GroupSaid>& said,
                           CollectionView& view) {
  std::vector<const v1::SlotOwner*> missing;
  for (const v1::SlotOwner& owner : view.layout.owners()) {
    const auto of_owner = std::find_if(said.begin(), said.end(), [&](const GroupSaid& group) {
      return group.group->name() == owner.group() && !group.replicas.empty();
    });
    if (of_owner == said.end()) {
      missing.push_back(&owner);
    } else if (absl::Status status = AddPart(*of_owner, &owner, view); !status.ok()) {
      return status;
    }
  }
  for (const v1::SlotOwner* owner : missing) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const std::shared_ptr<Group>& group) {
      return group->name() == owner->group();
    });
    const bool is_configured = known != groups.end();
    view.parts.push_back(
        {.target = {.group = is_configured ? *known : std::make_shared<Group>(owner->group(), 0), .replicas = {}},
         .num_documents = owner->num_documents(),
         .slots = client::SlotRangeOf(owner->slots()),
         .is_restricted = true,
         .is_configured = is_configured});
  }
  std::sort(view.parts.begin(), view.parts.end(),
            [](const CollectionView::Part& a, const CollectionView::Part& b) { return a.slots.first < b.slots.first; });
  return absl::OkStatus();
}

// Returns the first group that has not said what it holds of the collection, because none of its replicas has
// answered, or those that have answered are still loading. Returns null if there is no such group.
std::shared_ptr<Group> SilentGroup(const std::vector<std::shared_ptr<Group>>& groups, std::string_view name) {
  for (const std::shared_ptr<Group>& group : groups) {
    const Replicas replicas = group->replicas();
    if (std::all_of(replicas.begin(), replicas.end(),
                    [&](const std::shared_ptr<Replica>& replica) { return IsSilent(replica->info().get(), name); })) {
      return group;
    }
  }
  return nullptr;
}

// Adds the parts of `before`, the previous view, whose groups are still in the cluster but report no part now.
void KeepParts(const std::vector<std::shared_ptr<Group>>& groups, const CollectionView* before, CollectionView& view) {
  if (before == nullptr || view.parts.empty()) return;
  for (const CollectionView::Part& part : before->parts) {
    const auto is_same = [&](const std::shared_ptr<Group>& group) { return group == part.target.group; };
    const bool has_part = std::any_of(view.parts.begin(), view.parts.end(), [&](const CollectionView::Part& now) {
      return now.target.group == part.target.group;
    });
    if (has_part || std::none_of(groups.begin(), groups.end(), is_same)) continue;
    view.parts.push_back({.target = {.group = part.target.group, .replicas = {}},
                          .num_documents = part.num_documents,
                          .slots = part.slots,
                          .fingerprint = part.fingerprint});
  }
}

bool HadPart(const Group& group, const CollectionView* before) {
  return before != nullptr &&
         std::any_of(before->parts.begin(), before->parts.end(),
                     [&](const CollectionView::Part& part) { return part.target.group.get() == &group; });
}

// Adds the parts of the groups that report what they hold, and of those that did so before.
absl::Status AddHeldParts(const std::vector<std::shared_ptr<Group>>& groups, const std::vector<GroupSaid>& said,
                          const CollectionView* before, CollectionView& view) {
  absl::Status status;
  for (const GroupSaid& group : said) {
    if (group.replicas.empty() && !group.error.empty() && !HadPart(*group.group, before)) {
      status.Update(absl::UnavailableError(
          absl::StrCat("collection ", Quote(view.name), ": group ", group.group->name(), ": ", group.error)));
    }
  }
  for (const GroupSaid& group : said) {
    if (!group.replicas.empty()) status.Update(AddPart(group, /*owner=*/nullptr, view));
  }
  KeepParts(groups, before, view);
  return status;
}

void SetShape(const v1::CollectionInfo& shape, const NamedGeneration& named, CollectionView& view) {
  view.info.set_dim(shape.dim());
  view.info.set_storage(shape.storage());
  view.info.set_id_type(shape.id_type());
  view.info.set_rotation_seed(shape.rotation_seed());
  *view.info.mutable_fields() = shape.fields();
  if (shape.has_encoder()) *view.info.mutable_encoder() = shape.encoder();
  if (shape.has_live()) view.info.mutable_live()->set_log(shape.live().log());
  if (shape.has_live()) return;
  view.generation = named.generation;
  view.revision = named.revision;
  view.info.set_generation(named.generation);
  view.info.set_reload_revision(named.revision);
  if (shape.generation() == named.generation) view.info.set_previous_generation(shape.previous_generation());
}

std::shared_ptr<const CollectionView> ReadCollection(const std::vector<std::shared_ptr<Group>>& groups,
                                                     const std::string& name, const CollectionView* before,
                                                     const LagTracker* lags) {
  std::vector<GroupSaid> said = AskAll(groups, name);
  auto view = std::make_shared<CollectionView>();
  view->name = name;
  view->info.set_name(name);
  view->layout = ChooseLayout(said, before);
  if (view->has_layout()) LeaveOutOtherSlots(view->layout, said, view->left_out);
  DropSilent(said);
  const NamedGeneration named = ChooseGeneration(said, before == nullptr ? 0 : before->revision);
  const absl::Status left_out = LeaveOutContradictions(before, named.generation, view->layout, said, view->left_out);
  if (lags != nullptr) LeaveOutLagging(*lags, name, said, view->left_out);
  const v1::CollectionInfo* shape = ChooseShape(said, named.generation, view->layout);
  // The groups that a layout names are known even if none of their servers has loaded the collection now.
  if (shape == nullptr && view->has_layout() && before != nullptr) shape = &before->info;
  if (shape != nullptr) SetShape(*shape, named, *view);
  view->status = view->has_layout() ? AddOwnedParts(groups, said, *view) : AddHeldParts(groups, said, before, *view);
  if (view->status.ok()) view->status = DealSlots(SilentGroup(groups, name), *view);
  if (view->has_layout()) *view->info.mutable_live()->mutable_layout() = view->layout;
  view->SetState(left_out);
  return view;
}

}  // namespace

std::shared_ptr<const View> View::Of(std::vector<std::shared_ptr<Group>> groups, const View* before,
                                     const LagTracker* lags) {
  std::shared_ptr<View> view(new View(std::move(groups)));
  std::set<std::string> names;
  for (const std::shared_ptr<Group>& group : view->groups_) {
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
      if (info == nullptr) continue;
      if (IsLoaded(*replica, info.get())) view->loaded_.insert(replica.get());
      for (const v1::CollectionInfo& collection : info->collections()) names.insert(collection.name());
    }
  }
  for (const std::string& name : names) {
    const CollectionView* known = nullptr;
    if (before != nullptr) {
      const auto found = before->collections_.find(name);
      if (found != before->collections_.end()) known = found->second.get();
    }
    view->collections_[name] = ReadCollection(view->groups_, name, known, lags);
  }
  view->SetReports(lags);
  return view;
}

absl::StatusOr<std::shared_ptr<const CollectionView>> View::Find(std::string_view name) const {
  const auto found = collections_.find(name);
  if (found == collections_.end()) {
    const std::shared_ptr<Group> silent = SilentGroup(groups_, name);
    if (silent == nullptr) {
      return absl::NotFoundError(absl::StrCat("no collection ", Quote(name), " on any server of the cluster"));
    }
    return absl::UnavailableError(absl::StrCat("no server that answers has a collection ", Quote(name), ", and group ",
                                               silent->name(), " has not said what it has"));
  }
  if (!found->second->status.ok()) return found->second->status;
  return found->second;
}

absl::StatusOr<CallTarget> View::AnyGroup(uint64_t turn) const {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::shared_ptr<Group>& group = groups_[(turn + i) % groups_.size()];
    Replicas replicas = group->replicas();
    replicas.erase(std::remove_if(replicas.begin(), replicas.end(),
                                  [](const std::shared_ptr<Replica>& replica) {
                                    return !IsLoaded(*replica, replica->info().get());
                                  }),
                   replicas.end());
    if (!replicas.empty()) return CallTarget{group, std::move(replicas)};
  }
  return absl::UnavailableError("no server of the cluster answers");
}

}  // namespace maxsim::cluster
