// Which tier and which devices each shard of a collection goes to. Pure: numbers in, numbers out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "server/store/memory_ledger.h"
#include "server/store/residency.h"

namespace maxsim::store {

// What backends call a tier (not kAuto).
Tier TierOf(Residency tier);

// A tier that a shard may go to, and what one copy of it takes there: of the memory of the device that scores it, and
// of the host's beside that.
struct TierChoice {
  Residency tier = Residency::kHost;  // never kAuto
  MemoryNeed need;
};

struct ShardToPlace {
  uint64_t token_bytes = 0;         // what reading all of it moves: devices get equal shares of these
  std::vector<TierChoice> choices;  // best first, at least one
};

// What may be taken.
struct Room {
  std::vector<std::optional<uint64_t>> device_bytes;  // [devices]; nullopt: lost, nothing goes there
  uint64_t host_bytes = 0;                            // beside the devices' memory
};

struct ShardPlace {
  TierChoice tier;
  std::vector<uint32_t> devices;  // indices, ascending; one unless shards are copied
};

struct Placement {
  std::vector<ShardPlace> shards;
  MemoryDemand demand;  // of all shards; may be more than there is room for, and then nothing else would fit either
};

// Every shard goes to the device that has the fewest bytes of this collection so far, larger shards first; of equals to
// the one with more room. Shards with a choice of tiers then take the best that holds them, in their order, where
// need be on another device, as long as what is left holds the others in their last choice. A shard that has no choice
// goes to a device that holds it, if one does. With `copy` each shard goes to every device, in one tier.
//
// Deterministic. At least one device must not be lost.
Placement Place(absl::Span<const ShardToPlace> shards, const Room& room, bool copy);

}  // namespace maxsim::store
