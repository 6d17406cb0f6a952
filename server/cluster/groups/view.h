// A router's view of the cluster, made from the last answers to its polls: which group has which slots of a collection,
// and which replicas may answer for it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/group_call.h"
#include "server/cluster/observed/lag.h"

namespace maxsim::cluster {

// The value of LiveInfo.log for a collection whose writes are ordered by a stream.
inline constexpr char kStreamLog[] = "nats";

// A collection over all groups.
struct CollectionView {
  // The part of the collection that one group answers for.
  struct Part {
    CallTarget target;  // with the replicas that have `generation` and hold all of `slots`
    uint64_t num_documents = 0;
    collection::SlotRange slots;
    std::string fingerprint = {};  // of the replicas' generation; "" if unknown or live
    // Whether requests that look at all documents of the group must name the part's slots (parts/restriction.h).
    bool is_restricted = false;
    bool is_configured = true;  // false if the layout names a group that the router's list of groups does not have
  };

  std::string name;
  // Counts are sums over the groups. The groups agree on the shape (CheckSameShape). The encoder and the fields are
  // those that one group reports. `partition` is unset. num_documents has the documents of each group's slots, if a
  // server has counted them. The other figures are of all documents that one replica of each group holds. live.layout
  // is `layout`.
  v1::CollectionInfo info;
  // Which group owns which slots. Revision 0: there is no layout, and each group owns the slots that it holds.
  v1::SlotLayout layout = {};
  uint64_t generation = 0;  // the generation that requests name; 0 if live, because each server compacts on its own
  uint64_t revision = 0;    // of the last reload that named the generation (CollectionInfo.reload_revision)
  std::vector<Part> parts;
  std::array<int16_t, collection::kNumSlots> part_of_slot{};  // index in `parts`
  // OK, or why the collection cannot be served: groups contradict each other, or no group holds some slot.
  absl::Status status;
  // The groups that cannot answer now: none of their replicas that have the generation answers. Answers to clients lack
  // the documents of these groups. Empty if `status` is not OK.
  std::vector<std::string> missing_groups = {};
  // Why a replica gets no requests although it answers polls: it contradicts the other replicas of its group, lags too
  // far behind the stream, or does not hold all slots of its group.
  std::map<const Replica*, std::string> left_out = {};

  // Return the part that holds a slot, and the index of that part.
  const Part& PartOf(int32_t slot) const { return parts[PartIndexOf(slot)]; }
  size_t PartIndexOf(int32_t slot) const { return static_cast<size_t>(part_of_slot[static_cast<size_t>(slot)]); }
  // Returns whether all sequences come from one log: there is only one part, or one stream orders the writes to all
  // parts.
  bool has_one_log() const { return parts.size() == 1 || info.live().log() == kStreamLog; }
  bool has_int_ids() const { return info.id_type() == v1::ID_TYPE_INT64; }
  bool has_layout() const { return layout.revision() > 0; }

  // Sets missing_groups, and state and error of `info`. The error says why groups cannot answer, and then has the
  // message of `note`, unless that is OK.
  void SetState(const absl::Status& note);
};

// Returns whether a replica answers polls and has loaded all of its collections. Before that it answers no requests.
// `info` is the replica's last answer to a poll, or null.
bool IsLoaded(const Replica& replica, const v1::GetInfoResponse* info);

// The object is immutable.
class View {
 public:
  // Makes a view from the replicas' last answers. If a group reports nothing about a collection that other groups have,
  // takes the group's part from `before`, the previous view (may be null), because its servers are probably starting or
  // not reachable. Leaves out each replica whose lag exceeds the limits of `lags`. If this applies to all replicas of a
  // group, keeps those with the highest sequence. If `lags` is null, no lag is too long.
  //
  // If a server reports a layout of a collection, or `before` has one, the newest of them decides which group has which
  // part (ChooseLayout in group_reports.h). A group that owns no slots has no part. A group that owns slots always has
  // one, even if no replica of it holds them, or if it is not in `groups`: then it is one of the missing groups.
  static std::shared_ptr<const View> Of(std::vector<std::shared_ptr<Group>> groups, const View* before = nullptr,
                                        const LagTracker* lags = nullptr);

  const std::vector<std::shared_ptr<Group>>& groups() const { return groups_; }

  // Returns NOT_FOUND if all groups have said what they have, and none has the name; UNAVAILABLE, with the reason, if
  // the collection cannot be served, and if a group that may have it has not answered yet.
  absl::StatusOr<std::shared_ptr<const CollectionView>> Find(std::string_view name) const;

  const std::map<std::string, std::shared_ptr<const CollectionView>, std::less<>>& collections() const {
    return collections_;
  }

  // Returns a group for work that any group can do, such as scoring inline documents. `turn` rotates among the groups
  // that have a replica which answers and has loaded its collections. UNAVAILABLE if no group has one.
  absl::StatusOr<CallTarget> AnyGroup(uint64_t turn) const;

  // Returns the state of a replica at `now`, a time of MonotonicNow(). READY means that it answers polls, is not
  // ejected, gets requests for all of its collections, and has loaded them, now and also when this view was made. The
  // latter counts because the view decides which replicas get calls.
  v1::ReplicaState StateOf(const Replica& replica, absl::Time now) const;

  // Returns what a replica last reported about each of its collections, and whether it is left out.
  const std::vector<v1::ReplicaCollection>& ReportsOf(const Replica& replica) const;

 private:
  explicit View(std::vector<std::shared_ptr<Group>> groups) : groups_(std::move(groups)) {}
  void SetReports(const LagTracker* lags);

  const std::vector<std::shared_ptr<Group>> groups_;
  std::map<std::string, std::shared_ptr<const CollectionView>, std::less<>> collections_;
  std::map<const Replica*, std::vector<v1::ReplicaCollection>> reports_;
  std::set<const Replica*> loaded_;  // those that answered polls and had loaded all of their collections
};

}  // namespace maxsim::cluster
