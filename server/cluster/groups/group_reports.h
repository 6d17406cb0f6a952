// Collects what the servers of each group last reported about one collection, and chooses the reports for a view.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/replica.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/observed/lag.h"

namespace maxsim::cluster {

// One replica's last report about a collection.
struct Said {
  std::shared_ptr<Replica> replica;
  bool answers = false;
  v1::CollectionInfo info;
};

// The reports of one group about a collection, from the replicas that have loaded it.
struct GroupSaid {
  std::shared_ptr<Group> group;
  std::vector<Said> replicas;
  std::string error;              // of a replica that could not load it
  std::vector<Said> others = {};  // replicas that do not hold all slots which the layout gives the group

  bool answers() const {
    return std::any_of(replicas.begin(), replicas.end(), [](const Said& said) { return said.answers; });
  }
  bool Has(uint64_t generation) const {
    return std::any_of(replicas.begin(), replicas.end(), [&](const Said& said) {
      return said.info.generation() == generation && (said.answers || !answers());
    });
  }
};

// Why replicas get no requests (CollectionView::left_out).
using Reasons = std::map<const Replica*, std::string>;

// Returns the reports of the groups that have said something about the collection.
std::vector<GroupSaid> AskAll(const std::vector<std::shared_ptr<Group>>& groups, std::string_view name);

// Returns the newest (highest revision) of the layouts that the servers report and the layout in `before`, the router's
// previous view (may be null). So a router never goes back to an older layout. Returns one with revision 0 if there is
// none, or if the collection is no longer live. Ignores the layouts of servers that report another shape of the
// collection than `before`. The owners' numbers of documents are the newest that are known. Every layout must be valid
// (LayoutFault).
v1::SlotLayout ChooseLayout(const std::vector<GroupSaid>& groups, const CollectionView* before);

// Moves the replicas that do not hold all slots which the layout gives their group to GroupSaid::others, and adds why
// to `reasons`. Does nothing to groups that own no slots.
void LeaveOutOtherSlots(const v1::SlotLayout& layout, std::vector<GroupSaid>& groups, Reasons& reasons);

// Removes the replicas that do not answer polls, but only from groups in which another replica does.
void DropSilent(std::vector<GroupSaid>& groups);

// A generation, and the revision of the last reload that named it (CollectionInfo.reload_revision).
struct NamedGeneration {
  uint64_t generation = 0;
  uint64_t revision = 0;
};

// Returns the generation that requests will name: the one that the most groups have; if several are equally common, the
// one that was commanded last, or the newest of these. Never one that was commanded before the reload with the revision
// `named_before`, which made requests name their generation until now, as long as a replica that answers has carried
// out that reload, or a later one.
NamedGeneration ChooseGeneration(const std::vector<GroupSaid>& groups, uint64_t named_before);

// Returns whether two servers have different builds of a generation, given their fingerprints. Returns false if one is
// empty, because older versions of the server report none.
bool IsOtherBuild(const std::string& one, const std::string& other);
// Returns the message about two servers of a group that have different builds.
std::string OtherBuild(const std::string& name, const Group& group, uint64_t generation, const std::string& fingerprint,
                       const v1::CollectionInfo& other);

// Removes the servers that contradict the known state (`before`, may be null), but only from groups in which another
// server agrees with that state. So a single server that is configured wrongly does not make the collection
// unavailable. Considers only servers that report the generation `generation` or a live collection. If there is a
// layout, the servers of a group may hold different slots. Adds why to `reasons`. Returns the contradiction of the last
// removed server, or OK.
absl::Status LeaveOutContradictions(const CollectionView* before, uint64_t generation, const v1::SlotLayout& layout,
                                    std::vector<GroupSaid>& groups, Reasons& reasons);

// Removes the replicas whose lag exceeds the limits of `lags`, and adds why to `reasons`. If all replicas of a group
// exceed them, keeps those with the highest sequence.
void LeaveOutLagging(const LagTracker& lags, const std::string& name, std::vector<GroupSaid>& groups, Reasons& reasons);

// Returns the report that gives the collection its shape: one of a group that owns slots if there is one, and of the
// generation that requests will name if there is one. Returns null if there are no reports. The result is a part of
// `groups`.
const v1::CollectionInfo* ChooseShape(const std::vector<GroupSaid>& groups, uint64_t generation,
                                      const v1::SlotLayout& layout);

}  // namespace maxsim::cluster
