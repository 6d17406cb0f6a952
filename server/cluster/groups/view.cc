#include "server/cluster/groups/view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/cluster/observed/collection_report.h"

namespace maxsim::cluster {
namespace {

// One replica's last report about a collection.
struct Said {
  std::shared_ptr<Replica> replica;
  bool answers = false;
  v1::CollectionInfo info;
};

// The reports of one group about a collection, from the replicas that can serve it.
struct GroupSaid {
  std::shared_ptr<Group> group;
  std::vector<Said> replicas;
  std::string error;  // of a replica that could not load it

  bool answers() const {
    return std::any_of(replicas.begin(), replicas.end(), [](const Said& said) { return said.answers; });
  }
  bool Has(uint64_t generation) const {
    return std::any_of(replicas.begin(), replicas.end(), [&](const Said& said) {
      return said.info.generation() == generation && (said.answers || !answers());
    });
  }
};

// Returns whether a server has not yet said whether it has a collection, because it has not answered or is still
// loading.
bool IsSilent(const v1::GetInfoResponse* info, std::string_view name) {
  if (info == nullptr) return true;
  const v1::CollectionInfo* const report = ReportAbout(name, info);
  if (report == nullptr) return info->loading();
  return report->generation() == 0 && report->state() == v1::COLLECTION_STATE_LOADING;
}

std::vector<GroupSaid> AskAll(const std::vector<std::shared_ptr<Group>>& groups, std::string_view name) {
  std::vector<GroupSaid> all;
  for (const std::shared_ptr<Group>& group : groups) {
    GroupSaid of_group{.group = group, .replicas = {}, .error = {}};
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
      if (info == nullptr) continue;
      const bool answers = IsLoaded(*replica, info.get());
      for (const v1::CollectionInfo& collection : info->collections()) {
        if (collection.name() != name) continue;
        // If a reload fails, the server keeps the previous generation. So if there is a generation, ignore state and
        // error.
        if (collection.generation() == 0) {
          of_group.error = collection.error();
        } else {
          of_group.replicas.push_back({replica, answers, collection});
        }
      }
    }
    // The last report of a server that no longer answers counts only if no other server of its group answers.
    if (of_group.answers()) {
      of_group.replicas.erase(std::remove_if(of_group.replicas.begin(), of_group.replicas.end(),
                                             [](const Said& said) { return !said.answers; }),
                              of_group.replicas.end());
    }
    if (!of_group.replicas.empty() || !of_group.error.empty()) all.push_back(std::move(of_group));
  }
  return all;
}

// Returns the generation that requests will name: the one that the most groups have, or the newest of these if
// several are equally common.
uint64_t ChooseGeneration(const std::vector<GroupSaid>& groups) {
  std::set<uint64_t, std::greater<>> known;  // newest first
  for (const GroupSaid& group : groups) {
    for (const Said& said : group.replicas) known.insert(said.info.generation());
  }
  uint64_t best = 0;
  int64_t best_count = -1;
  for (const uint64_t generation : known) {
    const int64_t count =
        std::count_if(groups.begin(), groups.end(), [&](const GroupSaid& group) { return group.Has(generation); });
    if (count > best_count) {
      best = generation;
      best_count = count;
    }
  }
  return best;
}

// Returns whether two servers have different builds of a generation. Earlier servers report no fingerprint.
bool IsOtherBuild(const std::string& one, const std::string& other) {
  return !one.empty() && !other.empty() && one != other;
}

std::string OtherBuild(const std::string& name, const Group& group, uint64_t generation, const std::string& fingerprint,
                       const v1::CollectionInfo& other) {
  return absl::StrCat("collection ", Quote(name), ": servers of group ", group.name(),
                      " have different builds of generation ", generation, ": the fingerprint is ", fingerprint,
                      " on one and ", other.fingerprint(), " on another");
}

// Returns an error if a server contradicts the known shape of the collection or the known slots of its group, else OK.
absl::Status Contradiction(const CollectionView& before, const Group& group, const v1::CollectionInfo& info) {
  if (absl::Status status = CheckSameShape(before.info, info, before.name); !status.ok()) return status;
  for (const CollectionView::Part& part : before.parts) {
    if (part.target.group.get() != &group) continue;
    if (part.slots != SlotsOf(info)) {
      return absl::UnavailableError(absl::StrCat("collection ", Quote(before.name), ": group ", group.name(), " held ",
                                                 collection::DescribeSlots(part.slots), ", but a server of it holds ",
                                                 collection::DescribeSlots(SlotsOf(info))));
    }
    if (before.generation == info.generation() && IsOtherBuild(part.fingerprint, info.fingerprint())) {
      return absl::UnavailableError(OtherBuild(before.name, group, info.generation(), part.fingerprint, info));
    }
  }
  return absl::OkStatus();
}

// Removes the servers that contradict the known state (`before`), but only from groups in which another server agrees
// with that state. So a single server that is configured wrongly does not make the collection unavailable. Considers
// only servers that report the generation `generation` or a live collection. Returns the contradiction of the last
// removed server, or OK.
absl::Status LeaveOutContradictions(const CollectionView* before, uint64_t generation, std::vector<GroupSaid>& groups,
                                    std::map<const Replica*, std::string>& reasons) {
  absl::Status left_out;
  if (before == nullptr || !before->status.ok()) return left_out;
  for (GroupSaid& group : groups) {
    const auto counts = [&](const Said& said) { return said.info.has_live() || said.info.generation() == generation; };
    const auto agrees = [&](const Said& said) { return Contradiction(*before, *group.group, said.info).ok(); };
    if (std::none_of(group.replicas.begin(), group.replicas.end(),
                     [&](const Said& said) { return counts(said) && agrees(said); })) {
      continue;
    }
    const auto contradicts = [&](const Said& said) {
      if (!counts(said) || agrees(said)) return false;
      left_out = Contradiction(*before, *group.group, said.info);
      reasons[said.replica.get()] = std::string(left_out.message());
      return true;
    };
    group.replicas.erase(std::remove_if(group.replicas.begin(), group.replicas.end(), contradicts),
                         group.replicas.end());
  }
  return left_out;
}

// Removes the replicas whose lag exceeds the limits of `lags`, and adds why to `reasons`. View::Of says which stay.
void LeaveOutLagging(const LagTracker& lags, const std::string& name, std::vector<GroupSaid>& groups,
                     std::map<const Replica*, std::string>& reasons) {
  for (GroupSaid& group : groups) {
    if (group.replicas.size() < 2 || group.replicas.front().info.live().log() != kStreamLog) continue;
    std::vector<std::string> excesses;
    bool any_is_within = false;
    uint64_t most_advanced = 0;
    for (const Said& said : group.replicas) {
      const v1::LiveInfo& live = said.info.live();
      excesses.push_back(lags.Excess(lags.LagOf(name, live.sequence(), live.lag(), said.replica->info_asked())));
      any_is_within = any_is_within || excesses.back().empty();
      most_advanced = std::max(most_advanced, live.sequence());
    }
    std::vector<Said> kept;
    for (size_t i = 0; i < excesses.size(); ++i) {
      Said& said = group.replicas[i];
      const bool is_kept = any_is_within ? excesses[i].empty() : said.info.live().sequence() == most_advanced;
      if (!is_kept) reasons[said.replica.get()] = excesses[i];
      if (is_kept) kept.push_back(std::move(said));
    }
    group.replicas = std::move(kept);
  }
}

// Assigns every slot to the part that holds it. Assigns slots that no part holds to `silent`, a group that has not
// yet said what it holds. `silent` may be null. Returns UNAVAILABLE if two groups hold the same slot, or if no part
// holds a slot and `silent` is null.
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

// Adds the group's part, with the replicas that have the view's generation. Returns an error if the replicas contradict
// each other or the view.
absl::Status AddPart(const GroupSaid& group, CollectionView& view) {
  CollectionView::Part part;
  part.target.group = group.group;
  const v1::CollectionInfo* of_part = nullptr;
  for (const Said& said : group.replicas) {
    const bool has_generation = view.generation == 0 || said.info.generation() == view.generation;
    if (!has_generation) {
      if (!said.answers) continue;
      view.left_out[said.replica.get()] =
          absl::StrCat("it has generation ", said.info.generation(), ", but requests name ", view.generation);
      continue;
    }
    if (absl::Status status = CheckSameShape(view.info, said.info, view.name); !status.ok()) return status;
    if (of_part != nullptr && SlotsOf(*of_part) != SlotsOf(said.info)) {
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
  part.slots = SlotsOf(*of_part);
  part.num_documents = of_part->num_documents();
  AddUp(*of_part, view.parts.empty(), view.info);
  view.parts.push_back(std::move(part));
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

// Adds the parts of `before` whose groups are still in the cluster but report no part now.
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

std::shared_ptr<const CollectionView> ReadCollection(const std::vector<std::shared_ptr<Group>>& groups,
                                                     const std::string& name, const CollectionView* before,
                                                     const LagTracker* lags) {
  std::vector<GroupSaid> said = AskAll(groups, name);
  auto view = std::make_shared<CollectionView>();
  view->name = name;
  view->info.set_name(name);
  const v1::CollectionInfo* shape = nullptr;
  const uint64_t newest = ChooseGeneration(said);
  const absl::Status left_out = LeaveOutContradictions(before, newest, said, view->left_out);
  if (lags != nullptr) LeaveOutLagging(*lags, name, said, view->left_out);
  for (const GroupSaid& group : said) {
    for (const Said& one : group.replicas) {
      if (shape == nullptr || (shape->generation() != newest && one.info.generation() == newest)) shape = &one.info;
    }
    if (group.replicas.empty() && !group.error.empty() && !HadPart(*group.group, before)) {
      view->status.Update(absl::UnavailableError(
          absl::StrCat("collection ", Quote(name), ": group ", group.group->name(), ": ", group.error)));
    }
  }
  if (shape != nullptr) {
    view->info.set_dim(shape->dim());
    view->info.set_storage(shape->storage());
    view->info.set_id_type(shape->id_type());
    view->info.set_rotation_seed(shape->rotation_seed());
    *view->info.mutable_fields() = shape->fields();
    if (shape->has_encoder()) *view->info.mutable_encoder() = shape->encoder();
    if (shape->has_live()) view->info.mutable_live();
    view->generation = shape->has_live() ? 0 : newest;
    view->info.set_generation(view->generation);
  }
  for (const GroupSaid& group : said) {
    if (!group.replicas.empty()) view->status.Update(AddPart(group, *view));
  }
  KeepParts(groups, before, *view);
  if (view->status.ok()) view->status = DealSlots(SilentGroup(groups, name), *view);
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
