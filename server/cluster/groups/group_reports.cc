#include "server/cluster/groups/group_reports.h"

#include <array>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "collection/slots.h"
#include "server/cluster/observed/collection_report.h"
#include "server/cluster/observed/slot_layout.h"

namespace maxsim::cluster {
namespace {

// Returns an error if a server contradicts the known shape of the collection or, unless there is a layout, the known
// slots of its group; else OK.
absl::Status Contradiction(const CollectionView& before, const Group& group, const v1::SlotLayout& layout,
                           const v1::CollectionInfo& info) {
  if (absl::Status status = CheckSameShape(before.info, info, before.name); !status.ok()) return status;
  if (layout.revision() > 0) return absl::OkStatus();
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

// Sets each owner's number of documents to the number that a server reports, preferably a server of the owner's own
// group. If no server reports a number for an owner, its number stays.
void CountOwned(const std::vector<GroupSaid>& groups, v1::SlotLayout& layout) {
  std::array<int, collection::kNumSlots> by_first{};  // 1 + the index of the owner whose slots begin with this one
  for (int i = 0; i < layout.owners_size(); ++i) by_first[layout.owners(i).slots().first_slot()] = i + 1;
  std::vector<bool> is_own(static_cast<size_t>(layout.owners_size()));
  const auto note = [&](const Group& group, const collection::SlotRange& slots, uint64_t num_documents) {
    const int idx = by_first[static_cast<size_t>(slots.first)] - 1;
    if (idx < 0 || client::SlotRangeOf(layout.owners(idx).slots()) != slots) return;
    v1::SlotOwner& owner = *layout.mutable_owners(idx);
    const bool is_of_owner = owner.group() == group.name();
    if (is_own[static_cast<size_t>(idx)] && !is_of_owner) return;
    owner.set_num_documents(num_documents);
    is_own[static_cast<size_t>(idx)] = is_of_owner;
  };
  for (const GroupSaid& group : groups) {
    for (const Said& said : group.replicas) {
      for (const v1::SlotOwner& owner : said.info.live().layout().owners()) {
        if (owner.counted_case() != v1::SlotOwner::kNumDocuments) continue;
        note(*group.group, client::SlotRangeOf(owner.slots()), owner.num_documents());
      }
      note(*group.group, SlotsOf(said.info), said.info.num_documents());
    }
  }
}

}  // namespace

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
    if (!of_group.replicas.empty() || !of_group.error.empty()) all.push_back(std::move(of_group));
  }
  return all;
}

v1::SlotLayout ChooseLayout(const std::vector<GroupSaid>& groups, const CollectionView* before) {
  const v1::SlotLayout none;
  const v1::SlotLayout* best = before == nullptr ? &none : &before->layout;
  bool is_known_live = false;
  bool is_known_fixed = false;
  for (const GroupSaid& group : groups) {
    for (const Said& said : group.replicas) {
      (said.info.has_live() ? is_known_live : is_known_fixed) = true;
      const v1::SlotLayout& layout = said.info.live().layout();
      if (layout.revision() <= best->revision()) continue;
      const bool is_known = before != nullptr && before->status.ok();
      if (is_known && !CheckSameShape(before->info, said.info, before->name).ok()) continue;
      best = &layout;
    }
  }
  // Another collection has taken the name. It is not live, so it has no layout.
  if (is_known_fixed && !is_known_live) return v1::SlotLayout();
  v1::SlotLayout layout = *best;
  CountOwned(groups, layout);
  return layout;
}

void LeaveOutOtherSlots(const v1::SlotLayout& layout, std::vector<GroupSaid>& groups, Reasons& reasons) {
  for (GroupSaid& group : groups) {
    const v1::SlotOwner* const owner = OwnerIn(layout, group.group->name());
    if (owner == nullptr) continue;
    const collection::SlotRange owned = client::SlotRangeOf(owner->slots());
    const auto end_of_holders = std::stable_partition(group.replicas.begin(), group.replicas.end(),
                                                      [&](const Said& said) { return Holds(said.info, owned); });
    for (auto said = end_of_holders; said != group.replicas.end(); ++said) {
      if (!said->answers) continue;
      reasons[said->replica.get()] =
          absl::StrCat("it holds ", collection::DescribeSlots(SlotsOf(said->info)), ", but its group owns ",
                       collection::DescribeSlots(owned), " (revision ", layout.revision(), " of the layout)");
    }
    group.others.assign(std::make_move_iterator(end_of_holders), std::make_move_iterator(group.replicas.end()));
    group.replicas.erase(end_of_holders, group.replicas.end());
  }
}

void DropSilent(std::vector<GroupSaid>& groups) {
  for (GroupSaid& group : groups) {
    if (group.answers()) std::erase_if(group.replicas, [](const Said& said) { return !said.answers; });
  }
}

NamedGeneration ChooseGeneration(const std::vector<GroupSaid>& groups, uint64_t named_before) {
  std::map<uint64_t, uint64_t> revisions;  // by generation
  bool is_named_still = false;
  for (const GroupSaid& group : groups) {
    for (const Said& said : group.replicas) {
      const uint64_t revision = said.info.reload_revision();
      uint64_t& newest = revisions[said.info.generation()];
      newest = std::max(newest, revision);
      is_named_still = is_named_still || (said.answers && revision >= named_before);
    }
  }
  NamedGeneration best;
  int64_t best_count = -1;
  for (const auto& [generation, revision] : revisions) {
    if (is_named_still && revision < named_before) continue;
    const int64_t count = std::count_if(groups.begin(), groups.end(),
                                        [number = generation](const GroupSaid& group) { return group.Has(number); });
    if (std::tie(count, revision, generation) < std::tie(best_count, best.revision, best.generation)) continue;
    best = {.generation = generation, .revision = revision};
    best_count = count;
  }
  return best;
}

bool IsOtherBuild(const std::string& one, const std::string& other) {
  return !one.empty() && !other.empty() && one != other;
}

std::string OtherBuild(const std::string& name, const Group& group, uint64_t generation, const std::string& fingerprint,
                       const v1::CollectionInfo& other) {
  return absl::StrCat("collection ", Quote(name), ": servers of group ", group.name(),
                      " have different builds of generation ", generation, ": the fingerprint is ", fingerprint,
                      " on one and ", other.fingerprint(), " on another");
}

absl::Status LeaveOutContradictions(const CollectionView* before, uint64_t generation, const v1::SlotLayout& layout,
                                    std::vector<GroupSaid>& groups, Reasons& reasons) {
  absl::Status left_out;
  if (before == nullptr || !before->status.ok()) return left_out;
  for (GroupSaid& group : groups) {
    const auto counts = [&](const Said& said) { return said.info.has_live() || said.info.generation() == generation; };
    const auto agrees = [&](const Said& said) { return Contradiction(*before, *group.group, layout, said.info).ok(); };
    if (std::none_of(group.replicas.begin(), group.replicas.end(),
                     [&](const Said& said) { return counts(said) && agrees(said); })) {
      continue;
    }
    const auto contradicts = [&](const Said& said) {
      if (!counts(said) || agrees(said)) return false;
      left_out = Contradiction(*before, *group.group, layout, said.info);
      reasons[said.replica.get()] = std::string(left_out.message());
      return true;
    };
    group.replicas.erase(std::remove_if(group.replicas.begin(), group.replicas.end(), contradicts),
                         group.replicas.end());
  }
  return left_out;
}

void LeaveOutLagging(const LagTracker& lags, const std::string& name, std::vector<GroupSaid>& groups,
                     Reasons& reasons) {
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

const v1::CollectionInfo* ChooseShape(const std::vector<GroupSaid>& groups, uint64_t generation,
                                      const v1::SlotLayout& layout) {
  using Suits = std::tuple<bool, bool, bool>;
  const v1::CollectionInfo* best = nullptr;
  Suits best_suits;
  for (const GroupSaid& group : groups) {
    const bool is_owner = layout.revision() == 0 || OwnerIn(layout, group.group->name()) != nullptr;
    const auto note = [&](const Said& said, bool is_used) {
      const Suits suits(is_owner, is_used, said.info.generation() == generation);
      if (best != nullptr && suits <= best_suits) return;
      best = &said.info;
      best_suits = suits;
    };
    for (const Said& said : group.replicas) note(said, /*is_used=*/true);
    for (const Said& said : group.others) note(said, /*is_used=*/false);
  }
  return best;
}

}  // namespace maxsim::cluster
