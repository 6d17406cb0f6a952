// What the groups of a cluster hold, as a router last heard: which group has which slots of a collection, and which
// replicas may answer for it.
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

namespace maxsim::cluster {

// What LiveInfo.log says of a collection whose writes a stream orders.
inline constexpr char kStreamLog[] = "nats";

// A collection over all groups.
struct CollectionView {
  // A group that holds a part of it.
  struct Part {
    CallTarget target;  // with the replicas that have `generation`
    uint64_t num_documents = 0;
    collection::SlotRange slots;
  };

  std::string name;
  // Sums over the groups; the shape and the encoder are those that all agree on. Its partition is unset.
  v1::CollectionInfo info;
  uint64_t generation = 0;  // that requests ask for; 0 for a live one, whose servers compact each on its own
  std::vector<Part> parts;
  std::array<int16_t, collection::kNumSlots> part_of_slot{};  // index in `parts`
  // Why it cannot be served: groups contradict each other, or slots are nowhere.
  absl::Status status;

  // Return the part that has a slot, and its index.
  const Part& PartOf(int32_t slot) const { return parts[PartIndexOf(slot)]; }
  size_t PartIndexOf(int32_t slot) const { return static_cast<size_t>(part_of_slot[static_cast<size_t>(slot)]); }
  // Returns whether sequences are those of one log: the parts of a live collection have one stream, or there is one
  // part.
  bool has_one_log() const { return parts.size() == 1 || info.live().log() == kStreamLog; }
  bool has_int_ids() const { return info.id_type() == v1::ID_TYPE_INT64; }
};

// The object is immutable.
class View {
 public:
  // Reads what the replicas last said. A group that has nothing of a collection which others have keeps the part that
  // it had in `before` (may be null): its servers are starting, or away.
  static std::shared_ptr<const View> Of(std::vector<std::shared_ptr<Group>> groups, const View* before = nullptr);

  const std::vector<std::shared_ptr<Group>>& groups() const { return groups_; }

  // NOT_FOUND for a name that no replica has; UNAVAILABLE for a collection that cannot be served, with the reason.
  absl::StatusOr<std::shared_ptr<const CollectionView>> Find(std::string_view name) const;

  const std::map<std::string, std::shared_ptr<const CollectionView>, std::less<>>& collections() const {
    return collections_;
  }

  // Returns a group for what any group can do, such as inline documents: one after the other, of those that have a
  // replica which answers and has loaded its collections. UNAVAILABLE where none has.
  absl::StatusOr<CallTarget> AnyGroup(uint64_t turn) const;

  // Returns the state of a replica at `now`, which is of MonotonicNow(): READY where it answers and has loaded all of
  // its collections, and had done both when the view was made, which says where calls go.
  v1::ReplicaState StateOf(const Replica& replica, absl::Time now) const;

 private:
  explicit View(std::vector<std::shared_ptr<Group>> groups) : groups_(std::move(groups)) {}

  const std::vector<std::shared_ptr<Group>> groups_;
  std::map<std::string, std::shared_ptr<const CollectionView>, std::less<>> collections_;
  std::set<const Replica*> loaded_;  // those that answered, and had loaded all of their collections
};

}  // namespace maxsim::cluster
