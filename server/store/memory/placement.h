// Decides which tier and which devices each shard of a collection goes to. It only computes with numbers, and touches
// no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/store/memory/memory_ledger.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

// Returns the backends' name of a tier (not kAuto).
Tier TierOf(Residency tier);

// A tier that a shard may go to, and the memory that one replica takes there: of the device that scores it, and of the
// host in addition.
struct TierChoice {
  Residency tier = Residency::kHost;  // never kAuto
  MemoryNeed need;
};

struct ShardToPlace {
  uint64_t token_bytes = 0;         // The devices get about equal sums of these.
  std::vector<TierChoice> choices;  // best first, at least one
};

// The memory that may be taken.
struct Capacity {
  std::vector<std::optional<uint64_t>> device_bytes;  // [devices]; nullopt: lost, nothing goes there
  uint64_t host_bytes = 0;                            // beside the devices' memory
};

struct ShardPlacement {
  TierChoice tier;
  std::vector<uint32_t> devices;  // indices, ascending; one unless shards are copied
};

struct Placement {
  std::vector<ShardPlacement> shards;
  MemoryDemand demand;  // of all shards; more than the capacity where the collection does not fit
};

// Places the shards, larger ones first, each on the device that has the fewest bytes of this collection so far (of
// equals on the one with more space). A shard that has only one tier to choose goes to a device with space for it, if
// there is one. Then the other shards move, in their order, to the best tier that has space, if need be on another
// device, as long as the space that is left holds the remaining shards in their last choice. With `replicate` each
// shard goes to every device, in one tier.
//
// Deterministic. At least one device must not be lost.
Placement PlaceShards(absl::Span<const ShardToPlace> shards, const Capacity& capacity, bool replicate);

}  // namespace maxsim::store
