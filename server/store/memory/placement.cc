#include "server/store/memory/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/saturating.h"

namespace maxsim::store {
namespace {

bool HasSpaceFor(uint64_t capacity, uint64_t taken, uint64_t need) {
  return need <= capacity && taken <= capacity - need;
}

// The capacity of each device, and how much of it the shards that were placed so far take.
class Occupancy {
 public:
  explicit Occupancy(const Capacity& capacity)
      : capacity_(capacity), taken_(capacity.device_bytes.size()), load_(taken_.size()) {}

  size_t num_devices() const { return taken_.size(); }
  bool alive(size_t device) const { return capacity_.device_bytes[device].has_value(); }

  bool Fits(size_t device, const MemoryNeed& need) const {
    return alive(device) && HasSpaceFor(*capacity_.device_bytes[device], taken_[device], need.device_bytes) &&
           HasSpaceFor(capacity_.host_bytes, host_taken_, need.host_bytes);
  }
  void Take(size_t device, const MemoryNeed& need) {
    taken_[device] += need.device_bytes;
    host_taken_ += need.host_bytes;
  }
  void GiveBack(size_t device, const MemoryNeed& need) {
    taken_[device] -= need.device_bytes;
    host_taken_ -= need.host_bytes;
  }
  void AddLoad(size_t device, uint64_t token_bytes) { load_[device] += token_bytes; }
  void RemoveLoad(size_t device, uint64_t token_bytes) { load_[device] -= token_bytes; }

  // Returns the device with the least load. If several have the same load, returns the one with more space left. If
  // `need` is given, only considers devices that have space for it. Returns nullopt if there is no such device.
  std::optional<size_t> LeastLoaded(const MemoryNeed* need) const {
    std::optional<size_t> best;
    for (size_t device = 0; device < num_devices(); ++device) {
      if (!alive(device) || (need != nullptr && !Fits(device, *need))) continue;
      if (!best.has_value() || load_[device] < load_[*best] ||
          (load_[device] == load_[*best] && SpaceLeft(device) > SpaceLeft(*best))) {
        best = device;
      }
    }
    return best;
  }

 private:
  uint64_t SpaceLeft(size_t device) const {
    const uint64_t capacity = *capacity_.device_bytes[device];
    return capacity > taken_[device] ? capacity - taken_[device] : 0;
  }

  const Capacity& capacity_;
  std::vector<uint64_t> taken_;
  std::vector<uint64_t> load_;  // bytes of the collection's tokens
  uint64_t host_taken_ = 0;
};

// Returns the indices of the shards, larger shards first. Shards of equal size keep their order.
std::vector<size_t> LargestFirst(absl::Span<const ShardToPlace> shards) {
  std::vector<size_t> order(shards.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shards[a].token_bytes > shards[b].token_bytes; });
  return order;
}

// The first of the three passes of PlaceShards. Places each shard, larger shards first, on one device and in the least
// preferred of its memory tiers (the last choice). Of the devices that have space, takes the one that has the fewest
// bytes of this collection so far.
std::vector<ShardPlacement> PlaceOnLeastLoaded(absl::Span<const ShardToPlace> shards, Occupancy& occupancy) {
  std::vector<ShardPlacement> placements(shards.size());
  for (const size_t idx : LargestFirst(shards)) {
    const TierChoice& last = shards[idx].choices.back();
    // If no device has enough space, place the shard on the least loaded one. Reserving its memory will then fail.
    const size_t device =
        occupancy.LeastLoaded(&last.need).value_or(occupancy.LeastLoaded(/*need=*/nullptr).value_or(size_t{0}));
    occupancy.AddLoad(device, shards[idx].token_bytes);
    occupancy.Take(device, last.need);
    placements[idx] = {last, {static_cast<uint32_t>(device)}};
  }
  return placements;
}

// Moves a shard to the best tier that has space, preferably on the device where it is.
void PromoteTier(const ShardToPlace& shard, Occupancy& occupancy, ShardPlacement& placement) {
  const size_t device = placement.devices.front();
  occupancy.GiveBack(device, placement.tier.need);
  occupancy.RemoveLoad(device, shard.token_bytes);
  TierChoice chosen = placement.tier;
  size_t target = device;
  for (size_t idx = 0; idx + 1 < shard.choices.size(); ++idx) {
    const TierChoice& choice = shard.choices[idx];
    const std::optional<size_t> other =
        occupancy.Fits(device, choice.need) ? device : occupancy.LeastLoaded(&choice.need);
    if (!other.has_value()) continue;
    chosen = choice;
    target = *other;
    break;
  }
  occupancy.Take(target, chosen.need);
  occupancy.AddLoad(target, shard.token_bytes);
  placement = {chosen, {static_cast<uint32_t>(target)}};
}

// Balances the devices' loads, which PromoteTier leaves unequal. Moves only shards that are not in their best tier,
// because these take little device memory.
void RebalanceSlowTiers(absl::Span<const ShardToPlace> shards, Occupancy& occupancy,
                        std::vector<ShardPlacement>& placements) {
  std::vector<size_t> movable;
  for (const size_t idx : LargestFirst(shards)) {
    ShardPlacement& placement = placements[idx];
    if (shards[idx].choices.front().tier == placement.tier.tier) continue;
    movable.push_back(idx);
    occupancy.GiveBack(placement.devices.front(), placement.tier.need);
    occupancy.RemoveLoad(placement.devices.front(), shards[idx].token_bytes);
  }
  for (const size_t idx : movable) {
    ShardPlacement& placement = placements[idx];
    const size_t device = occupancy.LeastLoaded(&placement.tier.need).value_or(placement.devices.front());
    occupancy.Take(device, placement.tier.need);
    occupancy.AddLoad(device, shards[idx].token_bytes);
    placement.devices.front() = static_cast<uint32_t>(device);
  }
}

std::vector<ShardPlacement> PlaceOnOneDeviceEach(absl::Span<const ShardToPlace> shards, const Capacity& capacity) {
  Occupancy occupancy(capacity);
  std::vector<ShardPlacement> placements = PlaceOnLeastLoaded(shards, occupancy);
  for (size_t idx = 0; idx < shards.size(); ++idx) {
    if (shards[idx].choices.size() > 1) PromoteTier(shards[idx], occupancy, placements[idx]);
  }
  RebalanceSlowTiers(shards, occupancy, placements);
  return placements;
}

// Places the shards as if there were one device with the capacity of the smallest device. The host's memory is
// divided equally among the devices.
std::vector<ShardPlacement> PlaceReplicas(absl::Span<const ShardToPlace> shards, const Capacity& capacity) {
  std::vector<uint32_t> devices;
  std::optional<uint64_t> least;
  for (size_t device = 0; device < capacity.device_bytes.size(); ++device) {
    if (!capacity.device_bytes[device].has_value()) continue;
    devices.push_back(static_cast<uint32_t>(device));
    least = std::min(least.value_or(*capacity.device_bytes[device]), *capacity.device_bytes[device]);
  }
  const Capacity one = {.device_bytes = {least},
                        .host_bytes = capacity.host_bytes / std::max<size_t>(devices.size(), 1)};
  std::vector<ShardPlacement> placements = PlaceOnOneDeviceEach(shards, one);
  for (ShardPlacement& placement : placements) placement.devices = devices;
  return placements;
}

}  // namespace

Tier TierOf(Residency tier) {
  switch (tier) {
    case Residency::kHost:
      return Tier::kHost;
    case Residency::kDisk:
      return Tier::kDisk;
    default:
      return Tier::kDevice;
  }
}

Placement PlaceShards(absl::Span<const ShardToPlace> shards, const Capacity& capacity, bool replicate) {
  Placement placement;
  placement.shards = replicate ? PlaceReplicas(shards, capacity) : PlaceOnOneDeviceEach(shards, capacity);
  placement.demand.device_bytes.resize(capacity.device_bytes.size());
  for (const ShardPlacement& shard : placement.shards) {
    for (const uint32_t device : shard.devices) {
      uint64_t& bytes = placement.demand.device_bytes[device];
      bytes = SaturatingAdd(bytes, shard.tier.need.device_bytes);
      placement.demand.host_bytes = SaturatingAdd(placement.demand.host_bytes, shard.tier.need.host_bytes);
    }
  }
  return placement;
}

}  // namespace maxsim::store
