// Decides which tier and which devices each shard of a collection goes to. Pure computation: it accesses no device.
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

// A tier that a shard may go to, and the memory that one replica takes in this tier, on its device and on the host.
struct TierChoice {
  Residency tier = Residency::kHost;  // never kAuto
  MemoryNeed need;
};

struct ShardToPlace {
  uint64_t token_bytes = 0;         // Placement balances the sum of these over the devices.
  std::vector<TierChoice> choices;  // best first, at least one
};

// The memory that is available.
struct Capacity {
  std::vector<std::optional<uint64_t>> device_bytes;  // [devices]; nullopt: lost, nothing goes there
  uint64_t host_bytes = 0;                            // beside the devices' memory
};

struct ShardPlacement {
  TierChoice tier;
  std::vector<uint32_t> devices;  // indices, ascending; just one unless shards are replicated
};

struct Placement {
  std::vector<ShardPlacement> shards;
  MemoryDemand demand;  // of all shards; exceeds the capacity if the collection does not fit
};

// Places the shards in three passes. The first pass takes larger shards first and puts each in the last of its tier
// choices (the slowest), on the device that has space and the fewest bytes of this collection so far (if equal, the one
// with more space). If no device has space, the plan does not fit. The second pass takes the shards in their order and
// moves each to the best tier that has space, if necessary on another device. The third pass moves shards that are not
// in their best tier, to even out the devices' bytes. With `replicate` each shard goes to every device, in one tier.
//
// Deterministic. At least one device must not be lost.
Placement PlaceShards(absl::Span<const ShardToPlace> shards, const Capacity& capacity, bool replicate);

}  // namespace maxsim::store
