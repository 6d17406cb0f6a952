#include "server/store/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/saturating.h"

namespace maxsim::store {
namespace {

bool HoldsMore(uint64_t room, uint64_t taken, uint64_t need) { return need <= room && taken <= room - need; }

// What is taken of the room so far.
class Occupancy {
 public:
  explicit Occupancy(const Room& room) : room_(room), taken_(room.device_bytes.size()), load_(taken_.size()) {}

  size_t num_devices() const { return taken_.size(); }
  bool alive(size_t device) const { return room_.device_bytes[device].has_value(); }

  bool Holds(size_t device, const MemoryNeed& need) const {
    return alive(device) && HoldsMore(*room_.device_bytes[device], taken_[device], need.device_bytes) &&
           HoldsMore(room_.host_bytes, host_taken_, need.host_bytes);
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

  // The device with the least load, of equals the one with more room left; where `need` is given, only among those that
  // hold it. nullopt when there is none.
  std::optional<size_t> LeastLoaded(const MemoryNeed* need) const {
    std::optional<size_t> best;
    for (size_t device = 0; device < num_devices(); ++device) {
      if (!alive(device) || (need != nullptr && !Holds(device, *need))) continue;
      if (!best.has_value() || load_[device] < load_[*best] ||
          (load_[device] == load_[*best] && RoomLeft(device) > RoomLeft(*best))) {
        best = device;
      }
    }
    return best;
  }

 private:
  uint64_t RoomLeft(size_t device) const {
    const uint64_t room = *room_.device_bytes[device];
    return room > taken_[device] ? room - taken_[device] : 0;
  }

  const Room& room_;
  std::vector<uint64_t> taken_;
  std::vector<uint64_t> load_;  // bytes of the collection's tokens
  uint64_t host_taken_ = 0;
};

// Indices of the shards, larger ones first, equal ones in their order.
std::vector<size_t> LargestFirst(absl::Span<const ShardToPlace> shards) {
  std::vector<size_t> order(shards.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shards[a].token_bytes > shards[b].token_bytes; });
  return order;
}

// A place for each shard, on one device. Shards begin in their last choice.
std::vector<ShardPlace> Spread(absl::Span<const ShardToPlace> shards, Occupancy& occupancy) {
  std::vector<ShardPlace> places(shards.size());
  for (const size_t idx : LargestFirst(shards)) {
    const TierChoice& last = shards[idx].choices.back();
    // Where no device holds it, the least loaded one shall say so.
    const size_t device =
        occupancy.LeastLoaded(&last.need).value_or(occupancy.LeastLoaded(/*need=*/nullptr).value_or(size_t{0}));
    occupancy.AddLoad(device, shards[idx].token_bytes);
    occupancy.Take(device, last.need);
    places[idx] = {last, {static_cast<uint32_t>(device)}};
  }
  return places;
}

// Moves a shard to the best tier that holds it, on its device or else on another one.
void Improve(const ShardToPlace& shard, Occupancy& occupancy, ShardPlace& place) {
  const size_t device = place.devices.front();
  occupancy.GiveBack(device, place.tier.need);
  occupancy.RemoveLoad(device, shard.token_bytes);
  TierChoice chosen = place.tier;
  size_t target = device;
  for (size_t idx = 0; idx + 1 < shard.choices.size(); ++idx) {
    const TierChoice& choice = shard.choices[idx];
    const std::optional<size_t> other =
        occupancy.Holds(device, choice.need) ? device : occupancy.LeastLoaded(&choice.need);
    if (!other.has_value()) continue;
    chosen = choice;
    target = *other;
    break;
  }
  occupancy.Take(target, chosen.need);
  occupancy.AddLoad(target, shard.token_bytes);
  place = {chosen, {static_cast<uint32_t>(target)}};
}

// Moves for the sake of tiers leave devices with unequal shares. Shards outside of the devices' best tier take little
// of their memory, so that they can make up for it.
void Balance(absl::Span<const ShardToPlace> shards, Occupancy& occupancy, std::vector<ShardPlace>& places) {
  std::vector<size_t> movable;
  for (const size_t idx : LargestFirst(shards)) {
    ShardPlace& place = places[idx];
    if (shards[idx].choices.front().tier == place.tier.tier) continue;
    movable.push_back(idx);
    occupancy.GiveBack(place.devices.front(), place.tier.need);
    occupancy.RemoveLoad(place.devices.front(), shards[idx].token_bytes);
  }
  for (const size_t idx : movable) {
    ShardPlace& place = places[idx];
    const size_t device = occupancy.LeastLoaded(&place.tier.need).value_or(place.devices.front());
    occupancy.Take(device, place.tier.need);
    occupancy.AddLoad(device, shards[idx].token_bytes);
    place.devices.front() = static_cast<uint32_t>(device);
  }
}

std::vector<ShardPlace> PlaceOnOneDeviceEach(absl::Span<const ShardToPlace> shards, const Room& room) {
  Occupancy occupancy(room);
  std::vector<ShardPlace> places = Spread(shards, occupancy);
  for (size_t idx = 0; idx < shards.size(); ++idx) {
    if (shards[idx].choices.size() > 1) Improve(shards[idx], occupancy, places[idx]);
  }
  Balance(shards, occupancy, places);
  return places;
}

// As on one device that has no more room than the fullest of them, with the host's memory taken by each.
std::vector<ShardPlace> PlaceCopies(absl::Span<const ShardToPlace> shards, const Room& room) {
  std::vector<uint32_t> devices;
  std::optional<uint64_t> least;
  for (size_t device = 0; device < room.device_bytes.size(); ++device) {
    if (!room.device_bytes[device].has_value()) continue;
    devices.push_back(static_cast<uint32_t>(device));
    least = std::min(least.value_or(*room.device_bytes[device]), *room.device_bytes[device]);
  }
  const Room one = {.device_bytes = {least}, .host_bytes = room.host_bytes / std::max<size_t>(devices.size(), 1)};
  std::vector<ShardPlace> places = PlaceOnOneDeviceEach(shards, one);
  for (ShardPlace& place : places) place.devices = devices;
  return places;
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

Placement Place(absl::Span<const ShardToPlace> shards, const Room& room, bool copy) {
  Placement placement;
  placement.shards = copy ? PlaceCopies(shards, room) : PlaceOnOneDeviceEach(shards, room);
  placement.demand.device_bytes.resize(room.device_bytes.size());
  for (const ShardPlace& place : placement.shards) {
    for (const uint32_t device : place.devices) {
      uint64_t& bytes = placement.demand.device_bytes[device];
      bytes = SaturatingAdd(bytes, place.tier.need.device_bytes);
      placement.demand.host_bytes = SaturatingAdd(placement.demand.host_bytes, place.tier.need.host_bytes);
    }
  }
  return placement;
}

}  // namespace maxsim::store
